"""What a decision has to know of a message: the part of an envelope that filters and strategies read."""

import msgspec

from reach.envelope.message import Envelope, Scope
from reach.envelope.registration import TierByField, TierBySize
from reach.routing.pattern import Pattern, parse
from reach.routing.tiering import tier_of


class Message(msgspec.Struct, frozen=True, kw_only=True):
    """A message to be decided about. Moments by the clock of the backend, durations in ms.

    Attributes:
        source: The agent that sends it, as it says; "" = nobody in particular.
        name: The name of all its replicas, as it says; "" = none.
        tier: The tier that it needs, as text; None = any.
        tier_why: Why that one; "" = nobody asked.
        order_key: "" = none.
        conversation: Which it belongs to.
        context_tokens: So much room it needs in the context of its agent; 0 = it says nothing.
        hops: The agents it has been through; none of them gets it again.
        last_hops: The last two of them: who asked, and who was asked and sends this.
        stages: Of a broadcast with an order: who is in each stage; () = all at once.
        replies_to: The sender of the message that it answers, "" = it answers none; a loop back to it is none.
        was_asked: Whoever sends it has had the message that it answers, so that no rule keeps it from that sender.
        start_at_ms: What every timeout counts from: accepted, or not_before where that is later.
        first_at_ms: It must have been handed over once by then.
        total_at_ms: Nothing happens to it after that.
        network_ms: So long it waits for somebody to offer what it asks for.
    """

    pattern: Pattern
    scope: Scope = "one"
    type: str = "request"
    schema: str | None = None
    env: str = "dev"
    source: str = ""
    name: str = ""
    partition: int = 0
    zone: str | None = None
    tier: str | None = None
    tier_why: str = ""
    order_key: str = ""
    conversation: str = ""
    context_tokens: int = 0
    hops: frozenset[str] = frozenset()
    last_hops: tuple[str, ...] = ()
    stages: tuple[tuple[Pattern, ...], ...] = ()
    replies_to: str = ""
    was_asked: bool = False
    start_at_ms: int
    first_at_ms: int
    total_at_ms: int
    network_ms: int


def message_of(
    envelope: Envelope,
    *,
    env: str,
    partition: int,
    start_at_ms: int,
    first_at_ms: int,
    total_at_ms: int,
    network_ms: int,
    replies_to: str = "",
    was_asked: bool = False,
    fanned_out: bool = False,
    tier_by: TierBySize | TierByField | None = None,
) -> Message:
    """The message that an envelope is. `fanned_out`: its legs have their agents, and no stage is looked for.

    `tier_by`: how its policy reads the tier that it needs from its payload, where the sender does not say it.

    Raises:
        EnvelopeError: `target.bad_pattern`.
    """
    tier, tier_why = _tier(envelope, tier_by)
    return Message(
        pattern=parse(envelope.target.pattern),
        scope=envelope.target.scope,
        type=envelope.type,
        schema=envelope.payload.schema,
        env=env,
        source=envelope.source.agent_id,
        name=envelope.source.name or "",
        partition=partition,
        zone=envelope.source.zone,
        tier=tier,
        tier_why=tier_why,
        order_key=envelope.order_key or "",
        conversation=envelope.conversation,
        context_tokens=(envelope.needs.context_tokens or 0) if envelope.needs is not None else 0,
        hops=frozenset(envelope.traces.previous_hops),
        last_hops=envelope.traces.previous_hops[-2:],
        stages=() if fanned_out else tuple(tuple(map(parse, stage)) for stage in envelope.process_order or ()),
        replies_to=replies_to,
        was_asked=was_asked,
        start_at_ms=start_at_ms,
        first_at_ms=first_at_ms,
        total_at_ms=total_at_ms,
        network_ms=network_ms,
    )


def _tier(envelope: Envelope, by: TierBySize | TierByField | None) -> tuple[str | None, str]:
    if envelope.needs is not None and envelope.needs.tier is not None:
        return str(envelope.needs.tier), "its sender needs it"
    return tier_of(by, envelope.payload.body_bytes) if by is not None else (None, "")
