"""What the span of a hop is named after, so that no two hops share an id and everybody finds the parent of the next one.

A run is named by its hand, the id of the inbox entry that it was handed over with: no other run has that, whatever their attempts say,
after a free return, an answer or a requeue. What reads and writes a message at the door is named by its round, and the end of a leg by
leg and round: all that a receipt says of it. What has no part in either, and is nobody's parent, is named by what it is about and by
whoever records it.
"""

from typing import Final

from reach.tracing.propagation import span_id_of

#: The code of a `message.received` that is a copy: the message is known, and it runs nothing.
DUPLICATE: Final = "duplicate"
#: Ends of these codes may be of a copy, beside which the message itself goes on: their code is a part of their name.
_REFUSALS: Final = ("envelope.", "target.", "type.", "ttl.zero", "overloaded", "auth.", "loop.", "budget.")


def arrival_span(msg_id: str, round: int, copy: str = "") -> str:
    """Of a message that has come to a router, in this round; `copy`: the entry of one that was known already."""
    return span_id_of(msg_id, "message.received", round, copy)


def run_span(msg_id: str, leg: int, agent: str, hand: str, point: str) -> str:
    """Of a point of one run: `route.sent` for its hand-over, also where it was moved there."""
    return span_id_of(msg_id, leg, point, agent, hand)


def end_span(msg_id: str, leg: int, round: int, code: str) -> str:
    """Of the end of a leg, which the delivery of its receipt lies below. A message that is refused twice with one code has ended once."""
    return span_id_of(msg_id, leg, "end", round, code if code.startswith(_REFUSALS) else "")


def other_span(msg_id: str, leg: int, point: str, round: int, attempt: int, about: str) -> str:
    """Of any other point. `about`: which entry, hand or record, since all else may be the same once more."""
    return span_id_of(msg_id, leg, point, round, attempt, about)
