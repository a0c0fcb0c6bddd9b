"""The envelope and its parts, as they stand on the wire (PROTOCOL, section 3).

The structs say only what a field *is*; what a valid envelope *means* is in :mod:`reach.envelope.rules`.
The raw bytes of an envelope are no field of it: they travel beside it, since what is handed on is what was sent.
"""

from typing import Annotated, Literal

import msgspec

Lane = Literal["high", "normal", "low"]
Scope = Literal["one", "all"]

LANES: tuple[Lane, ...] = ("high", "normal", "low")
SCOPES: tuple[Scope, ...] = ("one", "all")

MIN_PRIORITY = 1
MAX_PRIORITY = 10

# Lua, Go and JSON parsers in other languages hold 64 bits; Python would hold anything.
Int64 = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
Fraction = Annotated[float, msgspec.Meta(ge=0.0, le=1.0)]


class Source(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """Who sends. `name` is the stable name of all replicas, `agent_id` the one that sent."""

    agent_id: str
    name: str | None = None
    node_id: str | None = None
    zone: str | None = None


class Target(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """Who is meant: a pattern, and whether one of the matching agents or all of them."""

    pattern: str
    scope: Scope = "one"


NO_BODY = msgspec.Raw()


class Payload(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """The content: a schema's name and any JSON, carried byte for byte.

    An absent body is `NO_BODY`, the empty Raw; a body of JSON `null` is `Raw(b"null")`.
    """

    schema: str | None = None
    body: msgspec.Raw = NO_BODY

    @property
    def body_bytes(self) -> bytes:
        """The body exactly as it was sent; empty when there is none."""
        return bytes(self.body)


class Traces(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """The agents that the conversation went through, and the W3C trace context.

    current_hop is the sender's own: any JSON, carried byte for byte; absent it is `NO_BODY`.
    """

    previous_hops: tuple[str, ...] = ()
    current_hop: msgspec.Raw = NO_BODY
    traceparent: str | None = None
    tracestate: str | None = None


class Timeouts(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """What the sender set, in ms. None: not set, so a default or the agent's own limit applies."""

    network_ms: Int64 | None = None
    processing_ms: Int64 | None = None
    total_ms: Int64 | None = None


NO_TIMEOUTS = Timeouts()


class Needs(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """What the chosen agent must have: room in its context (tokens), a tier."""

    context_tokens: Int64 | None = None
    tier: str | Int64 | None = None


class Budget(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """What the whole conversation may spend; of what is None, any amount. Every handler passes it on, and can only make it smaller.

    Attributes:
        hops: Messages after the first.
        cost: The sum of what its runs cost, in the unit of those who answer; once it is reached nothing more is sent.
        tokens: The sum of what its messages need and of what its runs have used beyond that.
    """

    hops: Int64 | None = None
    cost: float | None = None
    tokens: Int64 | None = None


class Envelope(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """One message. Moments are Unix ms, durations ms.

    Fields are as sent (an unset `priority` is 5, a sent 99 stays 99): what counts after defaults and clamping is
    given by :func:`reach.envelope.rules.limits_of`, `lane`, `task` and `conversation`.
    """

    msg_id: str
    type: str
    timestamp: Int64
    source: Source
    target: Target
    version: str = "1.0"
    task_id: str | None = None
    round: Int64 = 1
    correlation_id: str | None = None
    order_key: str | None = None
    ttl_ms: Int64 = 30_000
    priority: Int64 = 5
    payload: Payload = Payload()
    traces: Traces = Traces()
    reply_to: str | None = None
    in_reply_to: str | None = None
    timeouts: Timeouts = NO_TIMEOUTS
    max_attempts: Int64 = 6
    min_confidence: Fraction | None = None
    needs: Needs | None = None
    budget: Budget | None = None
    process_order: tuple[tuple[str, ...], ...] | None = None
    not_before: Int64 | None = None
    headers: dict[str, str] = {}

    @property
    def task(self) -> str:
        """The caller's own id: task_id, or msg_id where there is none."""
        return self.task_id if self.task_id is not None else self.msg_id

    @property
    def conversation(self) -> str:
        """The correlation id, or msg_id where there is none."""
        return self.correlation_id if self.correlation_id is not None else self.msg_id

    @property
    def lane(self) -> Lane:
        """The inbox lane that follows from the priority."""
        return lane_of(self.priority)


def lane_of(priority: int) -> Lane:
    """The lane of a priority: 8-10 high, 4-7 normal, 1-3 low; what lies outside is clamped."""
    if priority >= 8:
        return "high"
    return "normal" if priority >= 4 else "low"
