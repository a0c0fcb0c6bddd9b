"""The other stored records: who is there, how it is, and how a pattern is routed (PROTOCOL, sections 6 and 13)."""

from collections.abc import Iterator
from typing import Annotated, Any, Literal, NamedTuple

import msgspec

from reach import ids
from reach.envelope.message import Fraction, Int64, Timeouts
from reach.envelope.problems import Problem
from reach.envelope.rules import MAX_TIMEOUT_MS

BeatState = Literal["ready", "busy", "draining", "not_ready"]
Why = Literal["left", "silent", "removed"]
"""Why an agent is gone: it said goodbye; it showed no life for six beats; somebody removed it by hand."""
ControlOp = Literal["register", "leave", "cancel", "capabilities"]

MAX_CAPABILITIES = 1_000
#: of one accepted type
MAX_SCHEMAS = 1_000
MAX_GROUPS = 100
MAX_PARTITIONS = 16_384
MAX_CONCURRENCY = 1_000_000
#: Weights, costs and rates are summed and multiplied by every router: far below where a sum becomes infinite.
MAX_AMOUNT = 1_000_000.0
#: Slower than a message in 100 minutes is not slow but stopped; more tokens a minute than this are no bound.
LEAST_RATE, MAX_TOKENS = 0.01, 1_000_000_000
Amount = Annotated[float, msgspec.Meta(ge=0.0, le=MAX_AMOUNT)]


class Capability(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """One thing that an agent can do. Schemas are names (`refund.request.v1`) or JSON Schemas."""

    name: str
    description: str = ""
    examples: tuple[Any, ...] = ()
    input_schema: str | dict[str, Any] | None = None
    output_schema: str | dict[str, Any] | None = None
    max_process_ms: Int64 | None = None
    cost: float | None = None


class Accept(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """A message type that an agent takes; no schemas means any."""

    type: str
    schemas: tuple[str, ...] = ()


class RateLimit(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """What an agent takes in a minute: messages, tokens (`needs.context_tokens` of each message), or both."""

    messages: float | None = None
    tokens: Int64 | None = None


class Rate(NamedTuple):
    """A rate limit as it is reckoned with, whole numbers a minute; 0 = any number."""

    messages: int  # thousandths of a message
    tokens: int


def rate_of(limit: float | RateLimit | None) -> Rate | None:
    """The limit of a registration; None: there is none."""
    if limit is None:
        return None
    told = limit if isinstance(limit, RateLimit) else RateLimit(messages=limit)
    # Who wrote it may have asked nobody.
    return Rate(round(min(max(told.messages or 0, 0), MAX_AMOUNT) * 1_000), min(max(told.tokens or 0, 0), MAX_TOKENS))


DEFAULT_ACCEPTS = (Accept(type="request"), Accept(type="event"))


class Registration(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """What an instance declares about its agent. `partitions` is P as the agent knows it.

    `declares`: a label of this declaration, the same in its beats; instances of one label have agreed (docs/registration.md).
    """

    agent_id: str
    instance_id: str
    node_id: str | None = None
    env: str = "dev"
    zone: str | None = None
    groups: tuple[str, ...] = ()
    capabilities: tuple[Capability, ...] = ()
    accepts: tuple[Accept, ...] = DEFAULT_ACCEPTS
    partitions: Int64 = 1
    concurrency: Int64 = 8
    max_process_ms: Int64 | None = None
    weight: float = 1.0
    cost: float | None = None
    tier: str | Int64 | None = None
    rate_limit: float | RateLimit | None = None
    endpoint: str | None = None
    adapter: str | None = None
    token: str | None = None
    declares: str | None = None


class Beat(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """How an instance is right now. It steers routing only; possession of work is judged by leases.

    Unknown fields are ignored: an agent of a later version that says more must not count as silent.
    """

    state: BeatState = "ready"
    reason: str | None = None
    inflight: Int64 = 0
    load: float = 0.0
    success_rate: Fraction | None = None
    avg_response_ms: float | None = None
    context_left: Int64 | None = None
    epoch: Int64 | None = None
    partitions: Int64 | None = None
    declares: str | None = None


class Canary(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """The share of messages that go to the agents with this schema."""

    schema: str
    share: Fraction


class TierBySize(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="by", tag="size_bytes"):
    """The tier of a message by the size of its body: steps of at most so many bytes, rising; null = all that is left."""

    steps: tuple[tuple[Int64 | None, str | Int64], ...]


class TierByField(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="by", tag="field"):
    """The tier of a message by what its body says: `path` is a JSON Pointer, `map` has a tier for each text, number or true.

    A number means its value, however it is written: `1`, `1.0` and `1e0` are one.
    """

    path: str
    map: dict[str, str | Int64]
    default: str | Int64 | None = None


class RoutePolicy(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """How a pattern is routed: a value of the hash `routes`."""

    strategy: str | None = None
    weights: dict[str, Amount] = {}
    tiers: tuple[str | Int64, ...] = ()
    tier_by: TierBySize | TierByField | None = None
    fallback: str | None = None
    min_confidence: Fraction | None = None
    max_inbox: Annotated[int, msgspec.Meta(ge=0, le=2**53)] | None = None
    on_full: Literal["reject", "wait"] | None = None
    zone: Literal["hard", "preferred"] | None = None
    canary: Canary | None = None
    #: of a broadcast with a process_order: what a stage that has failed does to those behind it; None = stop
    on_stage_failed: Literal["stop", "continue"] | None = None
    timeouts: Timeouts = Timeouts()

    def __post_init__(self) -> None:
        """Raises ValueError for a timeout that is none; read from JSON, the policy is then junk as a whole."""
        for name in Timeouts.__struct_fields__:
            if _outside(getattr(self.timeouts, name), 1, MAX_TIMEOUT_MS):
                raise ValueError(f"timeouts.{name} is not 1 to {MAX_TIMEOUT_MS}")


class ControlEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One entry of `control`: flat JSON `{op, reply_to, ...}`; what belongs to the op is in `fields`, undecoded."""

    op: ControlOp
    reply_to: str | None = None
    fields: dict[str, msgspec.Raw] = {}


class StoredRegistration(Registration, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """A value of the hash `agents`: a registration and the version of its last change.

    What is unknown in it is ignored: the registrar that wrote it, and refuses what it does not know, may be of a later version.
    """

    v: Int64 = 0


class Tombstone(msgspec.Struct, frozen=True, kw_only=True):
    """What stands in the hash `agents` for 24 h after an agent is gone. `seen_at`: the last beat; None: it had taken its leave before.

    `why`: a Why, or a word of a later version.
    """

    gone_at: Int64
    v: Int64 = 0
    why: str = "removed"
    seen_at: Int64 | None = None


def problems_of(registration: Registration, *, env: str) -> list[Problem]:
    """Everything that is wrong with what a registration says, all at once; its types are right already.

    Args:
        registration: What the instance declares.
        env: The environment that it wants to join.
    """
    found = [
        Problem("registration.bad_field", field, problem)
        for field, wrong, problem in (*_identity(registration), *_abilities(registration), *_numbers(registration))
        if wrong
    ]
    if ids.is_env(registration.env) and registration.env != env:
        found.append(Problem("registration.wrong_env", "env", f"declared for {registration.env}, this is {env}"))
    return found


_Finding = tuple[str, bool, str]


def _identity(registration: Registration) -> Iterator[_Finding]:
    for field in ("agent_id", "instance_id", "node_id", "zone"):
        text = getattr(registration, field)
        yield field, text is not None and not ids.is_name(text), "not letters, digits, dot, dash, underscore; 1 to 128"
    yield "env", not ids.is_env(registration.env), "not lower-case letters, digits, dash; 1 to 32"
    yield "groups", len(registration.groups) > MAX_GROUPS, f"more than {MAX_GROUPS}"
    yield "capabilities", len(registration.capabilities) > MAX_CAPABILITIES, f"more than {MAX_CAPABILITIES}"
    yield "accepts", len(registration.accepts) > MAX_CAPABILITIES, f"more than {MAX_CAPABILITIES}"
    for at, group in enumerate(registration.groups[:MAX_GROUPS]):
        yield f"groups[{at}]", not ids.is_name(group), "not a name"
    for field, longest in (("endpoint", 2048), ("adapter", 128), ("token", 4096), ("declares", 128)):
        text = getattr(registration, field)
        yield field, text is not None and not 0 < len(text) <= longest, f"not 1 to {longest} characters"


def _abilities(registration: Registration) -> Iterator[_Finding]:
    seen: set[tuple[str, str]] = set()
    for at, capability in enumerate(registration.capabilities[:MAX_CAPABILITIES]):
        field = f"capabilities[{at}]"
        yield f"{field}.name", not ids.is_token(capability.name), "not dotted lower-case tokens, at most 128"
        for side in ("input_schema", "output_schema"):
            schema = getattr(capability, side)
            named = isinstance(schema, str)
            yield f"{field}.{side}", named and not ids.is_schema(schema), "not lower-case tokens that end in .v<N>"
        # Two schemas of one capability are two handlers side by side; the same one twice is a mistake.
        marks = (capability.name, repr(capability.input_schema))
        yield f"{field}.name", marks in seen, "the same capability and schema twice"
        seen.add(marks)
        most = MAX_TIMEOUT_MS
        yield f"{field}.max_process_ms", _outside(capability.max_process_ms, 1, most), f"not 1 to {most}"
        yield f"{field}.cost", _outside(capability.cost, 0, MAX_AMOUNT), f"not 0 to {MAX_AMOUNT:.0f}"
    for at, accept in enumerate(registration.accepts[:MAX_CAPABILITIES]):
        yield f"accepts[{at}].type", not ids.is_token(accept.type), "not dotted lower-case tokens, at most 128"
        yield f"accepts[{at}].schemas", len(accept.schemas) > MAX_SCHEMAS, f"more than {MAX_SCHEMAS}"
        for schema in accept.schemas[:MAX_SCHEMAS]:
            yield f"accepts[{at}].schemas", not ids.is_schema(schema), "not lower-case tokens that end in .v<N>"


def _numbers(registration: Registration) -> Iterator[_Finding]:
    for field, most in (
        ("partitions", MAX_PARTITIONS),
        ("concurrency", MAX_CONCURRENCY),
        ("max_process_ms", MAX_TIMEOUT_MS),
    ):
        yield field, _outside(getattr(registration, field), 1, most), f"not 1 to {most}"
    for field in ("weight", "cost"):
        yield field, _outside(getattr(registration, field), 0, MAX_AMOUNT), f"not 0 to {MAX_AMOUNT:.0f}"
    yield from _rate(registration.rate_limit)


def _rate(limit: float | RateLimit | None) -> Iterator[_Finding]:
    many = f"not {LEAST_RATE} to {MAX_AMOUNT:.0f} messages a minute"
    if not isinstance(limit, RateLimit):
        yield "rate_limit", _outside(limit, LEAST_RATE, MAX_AMOUNT), many
        return
    yield "rate_limit", limit.messages is None and limit.tokens is None, "says neither messages nor tokens"
    yield "rate_limit.messages", _outside(limit.messages, LEAST_RATE, MAX_AMOUNT), many
    yield "rate_limit.tokens", _outside(limit.tokens, 1, MAX_TOKENS), f"not 1 to {MAX_TOKENS} tokens a minute"


def _outside(number: float | None, least: float, most: float) -> bool:
    """Whether it is no number from `least` to `most`; what is absent is fine, NaN is not, nor is an int too large for a float."""
    return number is not None and not least <= number <= most
