"""Who has little in an inbox does not wait behind who has much: at its first hand-over such a message goes one lane up.

docs/decisions/0015
"""

from reach.backend.memory_backend.partition import Partition
from reach.backend.memory_backend.sharing import shares
from reach.backend.memory_backend.store import MessageRecord

FEW, MANY, MAX_SENDERS = 4, 32, 256
ABOVE = {"low": "normal", "normal": "high"}


def promote(part: Partition, record: MessageRecord, number: int, agent: str) -> None:
    """Only at the first one: afterwards its hand is an id of that lane, and ids are unique within one lane only."""
    head = record.head
    lane = ABOVE.get(head.lane)
    if head.scope == "all" or lane is None or not record.legs[number].hand.startswith("0"):
        return
    own = part.inbox(agent, head.lane)
    if own is None or len(own) < MANY or not _outnumbered(part, head.sender, agent):
        return
    above = part.inbox(agent, lane)
    if above is not None and part.make_readable(agent, lane) and len(above) < MANY:
        record.change_head(lane=lane)


def _outnumbered(part: Partition, sender: str, agent: str) -> bool:
    """Whether one sender has much there, and this one little."""
    counts = shares(part, agent)
    return counts.get(sender, 0) < FEW and 0 < len(counts) <= MAX_SENDERS and max(counts.values()) >= MANY
