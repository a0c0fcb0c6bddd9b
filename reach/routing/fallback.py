"""The degraded targets of a message: where it goes when nobody fits, or when its time is nearly over. Pure."""

from collections.abc import Iterator

import msgspec

from reach.envelope.ledger import Leg, LegState
from reach.errors import EnvelopeError
from reach.routing.filters import Sifted, View
from reach.routing.index import CapabilityIndex
from reach.routing.message import Message
from reach.routing.pattern import parse

#: The fallback of a pattern, and the fallback of that: no chain is followed for ever.
MAX_FALLBACKS = 2
#: What keeps somebody from standing in, and says nothing of the message's own agents: those may still appear.
_APART = frozenset({"loop", "rules"})
#: The last third of its time: total is near.
NEAR_SHARE = 3


def ways(message: Message, view: View, index: CapabilityIndex) -> Iterator[tuple[Message, View]]:
    """The fallback of its policy and then that one's, as the message and the view that they are asked with. A pattern comes once.

    A broadcast has none: its legs are other people's.
    """
    seen = {message.pattern.text}
    for _ in range(MAX_FALLBACKS if message.scope == "one" else 0):
        text = view.policy.fallback
        if text is None or text in seen:
            return
        try:
            pattern = parse(text)
        except EnvelopeError:  # written by hand: `reach routes ls` tells
            return
        seen.add(text)
        message = msgspec.structs.replace(message, pattern=pattern)
        view = msgspec.structs.replace(view, policy=index.policy(text))
        yield message, view


def near_total(message: Message, leg: Leg | None, now_ms: int) -> bool:
    """Whether a leg that has failed, or lies unread, has little time left."""
    if leg is None or not (leg.core or leg.state is LegState.QUEUED):
        return False
    return (message.total_at_ms - now_ms) * NEAR_SHARE <= message.total_at_ms - message.start_at_ms


def joined(first: Sifted, then: Sifted) -> Sifted:
    """What is told of two looks: who fits at the second one, and everybody who was refused, each once."""
    known = {seen.agent for seen in then.refused} | {agent.agent_id for agent in then.fits}
    refused = [*then.refused, *(seen for seen in first.refused if seen.agent not in known)]
    return Sifted(then.fits, refused, then.barred, then.told)


def stood_in(own: Sifted, then: Sifted, pattern: str) -> Sifted:
    """What is told of its own agents, and of those who stand in for them by a pattern, when those have been looked at as well."""
    apart = [
        msgspec.structs.replace(seen, reason=f"would stand in ({pattern[:128]}): {seen.reason}")
        for seen in then.refused
        if seen.filter in _APART
    ]
    refused = [seen for seen in then.refused if seen.filter not in _APART]
    both = joined(own, Sifted(then.fits, refused, own.barred, then.told))
    return msgspec.structs.replace(both, apart=(*own.apart, *apart))
