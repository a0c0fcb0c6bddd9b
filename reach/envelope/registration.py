"""The other stored records: who is there, how it is, and how a pattern is routed (PROTOCOL, sections 6 and 13)."""

from typing import Any, Literal

import msgspec

from reach.envelope.message import Fraction, Int64, Timeouts

BeatState = Literal["ready", "busy", "draining", "not_ready"]
ControlOp = Literal["register", "leave", "cancel", "capabilities"]


class Capability(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """One thing that an agent can do. Schemas are names (`refund.request.v1`) or JSON Schemas."""

    name: str
    description: str = ""
    examples: tuple[Any, ...] = ()
    input_schema: str | dict[str, Any] | None = None
    output_schema: str | dict[str, Any] | None = None
    max_process_ms: Int64 | None = None
    cost: float | None = None


class Accept(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """A message type that an agent takes; no schemas means any."""

    type: str
    schemas: tuple[str, ...] = ()


class Registration(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """What an instance declares about its agent. `partitions` is P as the agent knows it."""

    agent_id: str
    instance_id: str
    node_id: str | None = None
    env: str = "dev"
    zone: str | None = None
    groups: tuple[str, ...] = ()
    capabilities: tuple[Capability, ...] = ()
    accepts: tuple[Accept, ...] = (Accept(type="request"), Accept(type="event"))
    partitions: Int64 = 1
    concurrency: Int64 = 8
    max_process_ms: Int64 | None = None
    weight: float = 1.0
    cost: float | None = None
    tier: str | Int64 | None = None
    rate_limit: float | None = None
    endpoint: str | None = None
    adapter: str | None = None
    token: str | None = None


class Beat(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """How an instance is right now. It steers routing only; possession of work is judged by leases."""

    state: BeatState = "ready"
    reason: str | None = None
    inflight: Int64 = 0
    load: float = 0.0
    success_rate: Fraction | None = None
    avg_response_ms: float | None = None
    context_left: Int64 | None = None
    epoch: Int64 | None = None
    partitions: Int64 | None = None


class Canary(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """The share of messages that go to the agents with this schema."""

    schema: str
    share: Fraction


class RoutePolicy(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """How a pattern is routed: a value of the hash `routes`."""

    strategy: str | None = None
    weights: dict[str, float] = {}
    tiers: tuple[str | Int64, ...] = ()
    fallback: str | None = None
    min_confidence: Fraction | None = None
    max_inbox: Int64 | None = None
    on_full: Literal["reject", "wait"] | None = None
    zone: Literal["hard", "preferred"] | None = None
    canary: Canary | None = None
    timeouts: Timeouts = Timeouts()


class ControlEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One entry of `control`: flat JSON `{op, reply_to, ...}`; what belongs to the op is in `fields`, undecoded."""

    op: ControlOp
    reply_to: str | None = None
    fields: dict[str, msgspec.Raw] = {}
