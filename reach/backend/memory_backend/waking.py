"""Who waits for room at an agent stands in a queue for the bound that has refused it: a lane, `all` lanes, or `of:<sender>`.

Higher lanes first, then the oldest. A wake that is lost is made good when the leg looks again by itself.
"""

from reach import ids
from reach.backend.memory_backend.partition import Partition
from reach.backend.memory_backend.store import MessageRecord, ZSet
from reach.envelope.ledger import Head, LegState

MAX_TOLD = 16


def member(msg_id: str, number: int) -> str:
    """A leg, as it stands in a queue."""
    return f"{msg_id}/{number}"


def agent_of(name: str) -> str:
    """Whose room it is that a queue waits for."""
    return name.partition(":")[0]


def key_of(part: Partition, name: str) -> str:
    """The key of a queue."""
    agent, _, bound = name.partition(":")
    return part.keys.room(part.number, agent, bound)


def queue_of(part: Partition, name: str) -> ZSet:
    """A queue; what is none has nobody in it."""
    key = key_of(part, name)
    return (part.store.zset(key) if part.store.type_of(key) == "zset" else None) or ZSet()


def wake(part: Partition, name: str, most: int = MAX_TOLD) -> bool:
    """Room has come: it is told to one, the first (of the first `most`) that has been told of none. False: nobody is left there.

    Where that one sleeps, it decides anew. Whom nobody knows any more is dropped.
    """
    i = 0
    for _ in range(2 * MAX_TOLD):
        standing = queue_of(part, name).ranked()[: min(most, MAX_TOLD)]
        if i >= len(standing):
            return i > 0
        found = _waiter(part, standing[i], name)
        if found is None:
            drop_member(part, name, standing[i])
            continue
        msg_id, number, record = found
        leg = record.legs[number]
        if leg.woken_by:
            i += 1
            continue
        if leg.until_ms > part.now_ms:
            part.append_again(msg_id, number, leg.hand)
        record.change(number, until_ms=min(leg.until_ms, part.now_ms), woken_by=name)
        part.save(msg_id, record)
        return True
    return True


def entry_gone(part: Partition, agent: str) -> None:
    """An entry has left the inbox."""
    wake(part, f"{agent}:all")


def less_queued(part: Partition, agent: str, head: Head) -> None:
    """A leg has left `queued`: it is taken, or goes."""
    wake(part, f"{agent}:{head.lane}")
    wake(part, f"{agent}:of:{head.sender}")


def unqueue(part: Partition, msg_id: str, record: MessageRecord, number: int, to: str = "") -> None:
    """It waits there no more. Room of which it was told, and which it does not take (`to`: who it goes to), is the next one's."""
    leg = record.legs[number]
    for name in leg.rooms:
        drop_member(part, name, member(msg_id, number))
    record.change(number, rooms=(), woken_by="")
    if leg.woken_by and agent_of(leg.woken_by) != to:
        wake(part, leg.woken_by)


def drop_member(part: Partition, name: str, who: str) -> None:
    """Take it out of a queue."""
    queue_of(part, name).pop(who, None)
    if part.store.type_of(key_of(part, name)) == "zset":
        part.store.drop_empty(key_of(part, name))


def _waiter(part: Partition, who: str, name: str) -> tuple[str, int, MessageRecord] | None:
    """A member that waits there."""
    msg_id, _, text = who.rpartition("/")
    number, record = ids.count_of(text.encode()), part.load(msg_id) if msg_id else None
    leg = record.legs.get(number) if record is not None and number is not None else None
    if record is None or number is None or leg is None or record.head.tombstones:
        return None
    return (msg_id, number, record) if leg.state is LegState.WAITING and name in leg.rooms else None
