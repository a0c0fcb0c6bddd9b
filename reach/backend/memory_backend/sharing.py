"""How much of an inbox each sender fills: a hash sender -> legs queued there, over all its lanes.

It only bounds: a count that was lost lets its sender have more for a while, one that says too much is found out and goes.
"""

from reach import ids
from reach.backend.memory_backend.partition import Partition
from reach.backend.memory_backend.store import Hash, MessageRecord
from reach.envelope.ledger import Head, LegState


def share(part: Partition, record: MessageRecord, agent: str) -> None:
    """One more of this sender lies in the agent's inbox."""
    key = part.keys.share(part.number, agent)
    part.store.clear_wrong(key, "hash")
    expires_at_ms = part.store.expires_at_ms(key) or 0
    counts = part.store.make_hash(key)
    sender = record.head.sender
    counts[sender] = str(max(_count(counts, sender) + 1, 1)).encode()
    part.store.expire_at(key, max(part.expires_at_ms(record.head), expires_at_ms))


def unshare(part: Partition, record: MessageRecord, number: int) -> None:
    """The leg leaves `queued`: to be called before its state changes."""
    leg, sender = record.legs[number], record.head.sender
    key = part.keys.share(part.number, leg.agent)
    counts = _counts(part, key)
    if leg.state is not LegState.QUEUED or counts is None:
        return
    left = _count(counts, sender) - 1
    if left > 0:
        counts[sender] = str(left).encode()
        return
    counts.pop(sender, None)
    part.store.drop_empty(key)


def share_taken(part: Partition, head: Head, agent: str, max_inbox: int) -> bool:
    """Whether this sender fills half of an inbox with room for so many. What says that more is queued than lies there goes."""
    key = part.keys.share(part.number, agent)
    counts = _counts(part, key)
    if counts is None or _count(counts, head.sender) < (max_inbox + 1) // 2:
        return False
    inboxes = (part.inbox(agent, lane) for lane, _ in part.lanes(agent))
    lying = sum(len(inbox) for inbox in inboxes if inbox is not None)
    if sum(_count(counts, sender) for sender in counts) <= lying:
        return True
    part.store.delete(key)
    return False


def _counts(part: Partition, key: str) -> Hash | None:
    return part.store.hash(key) if part.store.type_of(key) == "hash" else None


def _count(counts: Hash, sender: str) -> int:
    return ids.count_of(counts.get(sender, b"")) or 0
