"""How much each sender fills, of an inbox and of the partition.

share: a hash sender -> legs queued in the inbox, over all its lanes. inflight: a hash sender -> open messages, `*` -> those of all, where
they are bounded. It only bounds: a count that was lost lets its sender have more for a while, one that says too much is found out and goes.
"""

from typing import Literal

from reach import ids
from reach.backend.memory_backend.partition import Partition
from reach.backend.memory_backend.store import Hash, MessageRecord
from reach.backend.memory_backend.waking import less_queued
from reach.envelope.ledger import Head, LegState

ALL = "*"


def share(part: Partition, record: MessageRecord, agent: str) -> None:
    """One more of this sender lies in the agent's inbox."""
    _more(part, record.head, part.keys.share(part.number, agent), record.head.sender)


def unshare(part: Partition, record: MessageRecord, number: int) -> None:
    """The leg leaves `queued`: to be called before its state changes."""
    leg = record.legs[number]
    if leg.state is LegState.QUEUED:
        _less(part, part.keys.share(part.number, leg.agent), record.head.sender)
        less_queued(part, leg.agent, record.head)


def share_taken(part: Partition, head: Head, agent: str, most: int) -> bool:
    """Whether this sender has so many queued there. What says that more is queued than lies there goes."""
    key = part.keys.share(part.number, agent)
    counts = _counts(part, key)
    counts = counts or Hash()
    if _count(counts, head.sender) < most:
        return False
    if sum(_count(counts, sender) for sender in counts) <= lying_with(part, agent):
        return True
    part.store.delete(key)
    return False


def shares(part: Partition, agent: str) -> dict[str, int]:
    """How many each sender has queued there."""
    counts = _counts(part, part.keys.share(part.number, agent)) or Hash()
    return {sender: _count(counts, sender) for sender in counts}


def lying_with(part: Partition, agent: str) -> int:
    """How many entries lie in an inbox, queued and running."""
    inboxes = (part.inbox(agent, lane) for lane, _ in part.lanes(agent))
    return sum(len(inbox) for inbox in inboxes if inbox is not None)


def over_bound(part: Partition, sender: str, most: int, mine: int) -> Literal["", "env", "sender"]:
    """Which bound one more message would break: `most` open ones of all, or `mine` of its sender.

    Each open one has its moment in `due`: what says that there are more of them has drifted, and goes.
    """
    key = part.keys.inflight(part.number)
    counts = _counts(part, key) or Hash()
    everybody, own = _count(counts, ALL), _count(counts, sender)
    if not (0 < most <= everybody or 0 < mine <= own):
        return ""
    moments = part.keys.due(part.number)
    due = part.store.zset(moments) if part.store.type_of(moments) == "zset" else None
    if max(everybody, own) > (len(due) if due is not None else 0):
        part.store.delete(key)
        return ""
    return "env" if 0 < most <= everybody else "sender"


def count_in(part: Partition, record: MessageRecord, *, bounded: bool) -> None:
    """One more message is open; counted only where there is a bound."""
    if not bounded:
        return
    record.change_head(counted=True)
    for name in (ALL, record.head.sender):
        _more(part, record.head, part.keys.inflight(part.number), name)


def count_out(part: Partition, record: MessageRecord, number: int) -> None:
    """A leg ends, and with the last one its message."""
    unshare(part, record, number)
    if record.head.open > 1 or not record.head.counted:
        return
    for name in (ALL, record.head.sender):
        _less(part, part.keys.inflight(part.number), name)


def _more(part: Partition, head: Head, key: str, name: str) -> None:
    part.store.clear_wrong(key, "hash")
    expires_at_ms = part.store.expires_at_ms(key) or 0
    counts = part.store.make_hash(key)
    counts[name] = str(_count(counts, name) + 1).encode()
    part.store.expire_at(key, max(part.expires_at_ms(head), expires_at_ms))


def _less(part: Partition, key: str, name: str) -> None:
    counts = _counts(part, key)
    if counts is None:
        return
    left = _count(counts, name) - 1
    if left > 0:
        counts[name] = str(left).encode()
        return
    counts.pop(name, None)
    part.store.drop_empty(key)


def _counts(part: Partition, key: str) -> Hash | None:
    return part.store.hash(key) if part.store.type_of(key) == "hash" else None


def _count(counts: Hash, name: str) -> int:
    return ids.count_of(counts.get(name, b"")) or 0
