"""The one table: what a code means, whether again can help, and what a gateway answers (PROTOCOL, section 4)."""

from typing import Literal

import msgspec

from reach.envelope.receipt import Status

Inside = Literal["", "no", "waits", "yes", "other agent", "moves"]

_RETRIED = frozenset({"yes", "other agent", "moves"})


class Code(msgspec.Struct, frozen=True):
    """One line of the table.

    Attributes:
        code: The stable code; a family ends in `.*`.
        status: How a leg that has it ended.
        inside: Whether reach itself tries again before the caller sees it.
        http: The status that a gateway answers.
        meaning: One sentence.
    """

    code: str
    status: Status
    inside: Inside
    http: int
    meaning: str

    @property
    def retryable(self) -> bool:
        """Whether the caller may try again."""
        return self.status is Status.RETRYABLE

    @property
    def retried_inside(self) -> bool:
        """Whether reach tries again by itself."""
        return self.inside in _RETRIED


_S, _F, _R = Status.SUCCESS, Status.FAILED, Status.RETRYABLE

TABLE: tuple[Code, ...] = (
    Code("ok", _S, "", 200, "The handler returned."),
    Code(
        "envelope.malformed",
        _F,
        "no",
        400,
        "Not JSON, not UTF-8, a key twice, nested over 64 deep, too many members, or no object.",
    ),
    Code("envelope.too_large", _F, "no", 400, "More bytes than an envelope may have."),
    Code("envelope.unknown_field", _F, "no", 400, "A field that no envelope has; details.field names it."),
    Code("envelope.missing_field", _F, "no", 400, "A required field is absent or null; details.field names it."),
    Code("envelope.bad_field", _F, "no", 400, "A field has the wrong type, grammar or range; details.field names it."),
    Code("envelope.unsupported_version", _F, "no", 400, "A version other than 1.x."),
    Code("envelope.id_conflict", _F, "no", 409, "This msg_id is taken by another content or another sender."),
    Code(
        "envelope.wrong_partition",
        _F,
        "no",
        421,
        "Sent into another partition than its own; details.partition is right.",
    ),
    Code("envelope.*", _F, "no", 400, "Another fault of the envelope."),
    Code("target.bad_pattern", _F, "no", 422, "The target pattern breaks the grammar."),
    Code("target.bad_scope", _F, "no", 422, "A scope other than one and all."),
    Code("target.too_many", _F, "no", 422, "More agents match than max_fanout allows."),
    Code("target.*", _F, "no", 422, "Another fault of the target."),
    Code("payload.invalid", _F, "no", 422, "The body does not fit its schema or type."),
    Code("schema.bad", _F, "no", 422, "A JSON Schema that is none, or none that is safe."),
    Code("schema.incompatible", _F, "no", 409, "A new version of a schema breaks the rule of its family."),
    Code("schema.changed", _F, "no", 409, "Another schema has this name: what is stored does not change."),
    Code("schema.full", _F, "no", 409, "As many schemas are stored as may be."),
    Code(
        "schema.unknown",
        _F,
        "no",
        422,
        "No JSON Schema of this name is stored, so that nothing can be validated by it.",
    ),
    Code("type.unregistered", _F, "no", 422, "Nobody has registered this message type."),
    Code("error.unknown_type", _F, "no", 422, "The agent has no handler for it; details.supported lists what it has."),
    Code("auth.denied", _F, "no", 403, "The sender may not do this."),
    Code("auth.*", _F, "no", 401, "Missing or bad credentials."),
    Code(
        "registration.malformed",
        _F,
        "no",
        409,
        "The registration is no JSON object, too large, or has too many members.",
    ),
    Code("registration.unknown_field", _F, "no", 409, "A field that no registration has."),
    Code("registration.missing_field", _F, "no", 409, "A required field is absent."),
    Code("registration.bad_field", _F, "no", 409, "A field has the wrong type, grammar or range."),
    Code("registration.wrong_env", _F, "no", 409, "Declared for another environment."),
    Code("registration.missing_token", _F, "no", 409, "This environment demands a token."),
    Code("registration.bad_token", _F, "no", 409, "The token is not the right one."),
    Code("registration.bad_address", _F, "no", 409, "Connected from outside the networks of this environment."),
    Code("registration.conflict", _F, "no", 409, "This agent_id is alive with another declaration."),
    Code("registration.bad_schema", _F, "no", 409, "One of its JSON Schemas is none, or none that is safe."),
    Code(
        "registration.incompatible_schema",
        _F,
        "no",
        409,
        "A schema breaks the rule of its family, or its name is taken by another.",
    ),
    Code(
        "registration.unknown_agent",
        _F,
        "no",
        409,
        "It is not registered, so its capabilities cannot be changed: register.",
    ),
    Code("registration.refused", _F, "no", 409, "Refused, and the registrar has given no code."),
    Code("registration.*", _F, "no", 409, "Another reason to refuse a registration."),
    Code(
        "loop.detected",
        _F,
        "no",
        508,
        "Everybody who could take it has already been on its path, or its conversation goes round (details.loop).",
    ),
    Code("loop.too_many_hops", _F, "no", 508, "More than 32 hops."),
    Code("budget.exceeded", _F, "no", 422, "The conversation has spent its budget; details.limit says which."),
    Code("stage.failed", _F, "no", 424, "An earlier stage of process_order failed."),
    Code("ttl.zero", _F, "no", 422, "A time to live of zero or less."),
    Code("handler.rejected", _F, "no", 422, "The handler said no; details.reject has its code."),
    Code("cancelled", _F, "no", 499, "The sender cancelled it."),
    Code("route.not_found", _F, "waits", 404, "Nobody offers it, nor appeared within network_ms."),
    Code("route.no_candidate", _R, "yes", 503, "It is offered, but nobody fits now; details.reasons says why."),
    Code("overloaded", _R, "no", 429, "Too much at once; retry_after_ms says when to come back."),
    Code("capacity.exhausted", _R, "no", 429, "All who could take it are full; retry_after_ms says when to come back."),
    Code("circuit.open", _R, "no", 503, "All who could take it fail at the moment."),
    Code("context.exceeded", _R, "other agent", 413, "The payload does not fit the agent's context."),
    Code(
        "handler.error",
        _R,
        "yes",
        502,
        "The handler raised, or answered junk; `failed`, and not tried again, where its result cannot be written or is too large.",
    ),
    Code(
        "handler.unfit",
        _R,
        "yes",
        502,
        "What the handler returned does not fit the JSON Schema that it names, where its agent validates; details.problems says where.",
    ),
    Code("handler.retry", _R, "yes", 502, "The handler asked to be tried again."),
    Code("agent.lost", _R, "yes", 502, "The agent that had it stopped renewing, or was removed."),
    Code("probe.failed", _R, "yes", 502, "The agent behind the adapter did not answer its probe."),
    Code("timeout.processing", _R, "yes", 504, "No sign of life from the handler for processing_ms."),
    Code(
        "timeout.network",
        _R,
        "moves",
        504,
        "Not picked up within network_ms: it moves, or stays. It ends by total or ttl, details.state queued.",
    ),
    Code("timeout.total", _R, "no", 504, "The caller's total_ms passed."),
    Code("ttl.expired", _R, "no", 504, "Not handed over within ttl_ms."),
    Code("backend.unavailable", _R, "", 503, "Redis could not be reached, or lost the bytes."),
    Code(
        "events.unavailable",
        _R,
        "",
        503,
        "The event store could not be written or asked; nothing of it is lost meanwhile.",
    ),
)

_BY_CODE = {line.code: line for line in TABLE}
_OTHER = Code("", _F, "no", 422, "A code that is not in the table, given by an agent.")
_DEFAULTS = {Status.SUCCESS: "ok", Status.FAILED: "handler.rejected", Status.RETRYABLE: "handler.error"}


def describe(code: str) -> Code:
    """The line of a code; of its family where it has none of its own; else `failed`, since nobody knows better."""
    line = _BY_CODE.get(code) or _BY_CODE.get(f"{code.partition('.')[0]}.*") or _OTHER
    return line if line.code == code else msgspec.structs.replace(line, code=code)


def default_code(status: Status) -> str:
    """The code of a receipt that names none."""
    return _DEFAULTS[status]


def markdown() -> str:
    """The table as docs/codes.md, which a test compares with the file."""
    lines = [
        "# Codes",
        "",
        "Made from `reach/envelope/codes.py`; written anew by",
        "`python -c \"from reach.envelope.codes import markdown; print(markdown(), end='')\" > docs/codes.md`.",
        "",
        "`inside`: whether reach itself tries again before the caller sees the code.",
        "",
        "| code | status | inside | HTTP | meaning |",
        "|---|---|---|---|---|",
    ]
    lines += [f"| `{c.code}` | {c.status.value} | {c.inside} | {c.http} | {c.meaning} |" for c in TABLE]
    return "\n".join(lines) + "\n"
