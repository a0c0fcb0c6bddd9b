"""The health of agents, and what an open circuit keeps from one. The rules stand in `reach.envelope.circuit`."""

from reach.backend.memory_backend.partition import Partition
from reach.backend.memory_backend.store import MessageRecord
from reach.backend.steps import Answer
from reach.envelope import circuit
from reach.envelope.circuit import BUSY_MS, LISTED, OPEN_MS, SILENT_MS, Row, probe_of
from reach.envelope.ledger import Leg, LegState, ends_at_ms

HOUR_MS = 3_600_000
_HELD = frozenset({LegState.QUEUED, LegState.RUNNING})


def health_of(part: Partition, agent: str) -> Row:
    """The row of an agent; a key of another type says nothing."""
    return circuit.row_of(_hash(part).get(agent), part.now_ms)


def tally(part: Partition, agent: str, run: str, *, good: bool, before: bool = False, death: bool = False) -> None:
    """Count what a run says of its agent."""
    row = health_of(part, agent)
    after = circuit.counted(row, run, part.now_ms, good=good, before=before, death=death)
    if after is row:
        return
    if after is None:
        forget_health(part, agent)
        return
    if after.opened_at_ms and not row.opened_at_ms:
        _list(part, agent, is_open=True)
    _put(part, agent, after)


def forget_health(part: Partition, agent: str) -> None:
    """The agent is gone, or well again."""
    rows = _hash(part)
    rows.pop(agent, None)
    _list(part, agent, is_open=False)


def shut_ms(part: Partition, agent: str) -> int:
    """For how long the agent is to be handed nothing; 0: it may be."""
    row = health_of(part, agent)
    match row.state(part.now_ms):
        case "closed":
            return 0
        case "open":
            return row.opened_at_ms + OPEN_MS - part.now_ms
        case _:
            return BUSY_MS if _in_flight(part, agent, row.probe) else 0


def handed(part: Partition, agent: str, msg_id: str, number: int, hand: str) -> None:
    """What is handed over while the circuit is not closed is the probe."""
    row = health_of(part, agent)
    if row.opened_at_ms:
        row.probe = probe_of(msg_id, number, hand)
        _put(part, agent, row)


def barred(part: Partition, agent: str, msg_id: str, number: int, hand: str) -> bool:
    """Whether this entry has to go back: it lay in the inbox before the circuit opened. The probe may start; the next is 30 s away then."""
    row = health_of(part, agent)
    if not row.opened_at_ms:
        return False
    if row.probe != probe_of(msg_id, number, hand):
        return True
    row.opened_at_ms = part.now_ms
    _put(part, agent, row)
    return False


def hangs(part: Partition, record: MessageRecord, number: int) -> bool:
    """Whether a run that is cut off has been silent for so long that it is its agent's fault; less than 15 s is its sender's hurry."""
    head, leg = record.head, record.legs[number]
    since_ms, until_ms = leg.alive_at_ms or leg.taken_at_ms, min(part.now_ms, ends_at_ms(head, leg))
    return leg.state in _HELD and since_ms > 0 and until_ms - since_ms >= max(head.processing_ms, SILENT_MS)


def at_fault(part: Partition, record: MessageRecord, number: int, code: str) -> bool:
    """An agent may end a run sooner than its message has to be: that is by its own word, and by no sender's."""
    own = code == "timeout.processing" and record.head.processing_ms >= SILENT_MS
    return own or hangs(part, record, number)


def lost_run(part: Partition, msg_id: str, record: MessageRecord, number: int, *, death: bool = False) -> None:
    """Total or its processing time ends a run, or its holder has died."""
    leg = record.legs[number]
    if death or hangs(part, record, number):
        run = probe_of(msg_id, number, leg.hand)
        tally(part, leg.agent, run, good=False, before=failed_there(leg), death=death)


def failed_there(leg: Leg) -> bool:
    """Whether an earlier run of the leg has failed at this agent."""
    return leg.agent in leg.tried


def judged(part: Partition, agent: str, run: str, answer: Answer, wait_ms: int, *, hung: bool, before: bool) -> None:
    """Count what an answer says of its agent."""
    good = circuit.speaks_for(answer.status, answer.code, wait_ms, hung=hung)
    if good is not None:
        tally(part, agent, run, good=good, before=before)


def open_rows(part: Partition) -> dict[str, Row]:
    """The rows of all agents whose circuit is not closed. Read only."""
    rows = _hash(part)
    named = {name.decode(errors="replace") for name in rows.get(LISTED, b"").split()}
    found = {name: circuit.row_of(rows.get(name), part.now_ms) for name in sorted(named)}
    return {name: row for name, row in found.items() if row.opened_at_ms}


def _in_flight(part: Partition, agent: str, probe: str) -> bool:
    """The ledger says so itself: whatever has become of a probe, nobody has to free it."""
    run = circuit.run_of(probe)
    record = part.load(run[0]) if run is not None else None
    leg = record.legs.get(run[1]) if record is not None and run is not None else None
    return leg is not None and run is not None and (leg.agent, leg.hand) == (agent, run[2]) and leg.state in _HELD


def _hash(part: Partition) -> dict[str, bytes]:
    key = part.keys.health(part.number)
    found = part.store.hash(key) if part.store.type_of(key) == "hash" else None
    return found if found is not None else {}


def _put(part: Partition, agent: str, row: Row) -> None:
    key = part.keys.health(part.number)
    part.store.clear_wrong(key, "hash")
    part.store.make_hash(key)[agent] = row.text()
    part.store.expire_at(key, part.now_ms + HOUR_MS)


def _list(part: Partition, agent: str, *, is_open: bool) -> None:
    key = part.keys.health(part.number)
    names = [name for name in _hash(part).get(LISTED, b"").split() if name != agent.encode()]
    if is_open:
        part.store.clear_wrong(key, "hash")
        names.append(agent.encode())
    if names:
        part.store.make_hash(key)[LISTED] = b" ".join(names)
    else:
        _hash(part).pop(LISTED, None)
        if part.store.type_of(key) == "hash":
            part.store.drop_empty(key)
