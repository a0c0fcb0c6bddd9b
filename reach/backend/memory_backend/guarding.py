"""once_take, once_end: the guard of one effect of a message, a hash: owner o, end of his lease u, and when it is over the value r."""

from reach.backend.bounds import ONCE_MS
from reach.backend.memory_backend.partition import Partition
from reach.backend.memory_backend.store import Hash
from reach.backend.steps import Guard
from reach.envelope.ledger import LegState
from reach.ids import count_of


def once_take(part: Partition, msg_id: str, number: int, hand: str, name: str, owner: str, lease_ms: int) -> Guard:
    """Give the guard to the run that asks, renew it, or say what came of the effect."""
    key, guard = _guard(part, msg_id, name)
    if "r" in guard:
        if part.load(msg_id) is not None:
            outlive(part, key, msg_id)  # a later round lives longer
        return Guard("done", guard["r"])
    if guard.get("o") != owner.encode():
        ahead_ms = (count_of(guard.get("u", b"")) or 0) - part.now_ms
        # After a step back of the clock a lease may end far ahead: it is trusted for one lease from now, and no longer.
        left_ms = min(ahead_ms, lease_ms) if "o" in guard else 0
        if left_ms > 0:
            if ahead_ms > lease_ms:
                part.store.make_hash(key)["u"] = str(part.now_ms + lease_ms).encode()
            return Guard("taken", wait_ms=left_ms)
        record = part.load(msg_id)
        leg = record.legs.get(number) if record is not None else None
        if leg is None or leg.hand != hand or leg.state not in {LegState.RUNNING, LegState.QUEUED}:
            return Guard("stale")
    part.store.make_hash(key).update({"o": owner.encode(), "u": str(part.now_ms + lease_ms).encode()})
    outlive(part, key, msg_id)
    return Guard("mine")


def once_end(part: Partition, msg_id: str, name: str, owner: str, value: bytes) -> bool:
    """Write what came of the effect into its guard, or (no bytes) free it."""
    key, guard = _guard(part, msg_id, name)
    if guard.get("o", owner.encode()) != owner.encode():
        return False
    if "r" in guard:
        return guard["r"] == value
    if not value:
        part.store.delete(key)
        return True
    stored = part.store.make_hash(key)
    stored.update({"o": owner.encode(), "r": value})
    stored.pop("u", None)
    outlive(part, key, msg_id)
    return True


def _guard(part: Partition, msg_id: str, name: str) -> tuple[str, Hash]:
    key = part.keys.once(part.number, msg_id, name)
    part.store.clear_wrong(key, "hash")
    return key, part.store.hash(key) or Hash()


def outlive(part: Partition, key: str, msg_id: str) -> None:
    """As long as the record and then some: a round that opens at the record's end must still find it. Never shorter than before."""
    record = part.load(msg_id)
    last_ms = part.expires_at_ms(record.head) if record is not None and not record.head.tombstones else part.now_ms
    part.store.expire_at(key, max(last_ms + ONCE_MS, part.store.expires_at_ms(key) or 0))
