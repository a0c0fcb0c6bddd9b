"""open_inbox and close_inbox: the lanes of an agent in one partition."""

from reach import ids
from reach.backend.keys import GROUP_AGENT
from reach.backend.memory_backend.closing import give_back, own_answer
from reach.backend.memory_backend.health import forget_health
from reach.backend.memory_backend.partition import Partition
from reach.backend.memory_backend.streams import ZERO, Fields, Stream
from reach.backend.memory_backend.ticking import LEASE_MS
from reach.backend.steps import Answer
from reach.envelope.ledger import LegState

MAX_MOVES_A_CALL = 500


def open_inbox(part: Partition, agent: str) -> bool:
    """Make the three lanes and their groups, at id 0 so that nothing that was sent before is missed; wind back ids of the future.

    True: something had to be done.
    """
    made = False
    for lane, key in part.lanes(agent):
        part.store.clear_wrong(key, "stream")
        made = made or part.readers(agent, lane) is None
        stream = part.store.make_stream(key)
        stream.make_group(GROUP_AGENT)
        made = stream.rewind(part.now_ms, hands=True) or made
    return made


def close_inbox(part: Partition, agent: str) -> bool:
    """Move what nobody will read to the internal door; delete the lanes when nothing is left. False: something still is."""
    left, budget = 0, MAX_MOVES_A_CALL
    for lane, _ in part.lanes(agent):
        stream = part.inbox(agent, lane) if budget > 0 else None
        if stream is None:
            continue
        group = stream.group(GROUP_AGENT)
        pending = group.all_pending() if group is not None else []
        lost = [hand for hand, row in pending if row.idle_ms(part.now_ms) >= LEASE_MS][:budget]
        for hand in lost:
            _move(part, agent, lane, stream, hand, stream.get(hand) or {}, lost=True)
        budget -= len(lost)
        # While somebody works on entries of the lane, only those that nobody was ever given are moved.
        held = len(pending) - len(lost)
        left += held
        behind = group.last_delivered if group is not None and held else ZERO
        fresh = stream.after(behind, budget) if budget > 0 else []
        for hand, fields in fresh:
            if group is None or group.pending_of(hand) is None:
                _move(part, agent, lane, stream, hand, fields, lost=False)
                budget -= 1
    if budget <= 0:
        left += 1
    if left == 0:
        for _, key in part.lanes(agent):
            part.store.delete(key)
        part.store.delete(part.keys.share(part.number, agent))
        forget_health(part, agent)
    return left == 0


def _move(part: Partition, agent: str, lane: str, stream: Stream, hand: str, fields: Fields, *, lost: bool) -> None:
    """Give the leg back, if the entry is its hand. `lost`: it was delivered and its lease is over, which burns an attempt."""
    msg_id = fields.get(b"m", b"").decode(errors="replace")
    number = ids.count_of(fields.get(b"l", b""))
    record = part.load(msg_id) if msg_id else None
    leg = record.legs.get(number) if record is not None and number is not None else None
    if (
        record is not None
        and number is not None
        and leg is not None
        and (leg.hand, leg.agent, record.head.lane) == (hand, agent, lane)
        and leg.state in {LegState.QUEUED, LegState.RUNNING}
    ):
        core = own_answer("retryable", "agent.lost", "its agent was removed")
        answer = Answer("retryable", "agent.lost", core) if lost else None
        give_back(part, msg_id, record, number, "agent.lost", burn=lost, answer=answer)
        part.save(msg_id, record)
    part.discard(agent, lane, hand)
    stream.delete([hand])
