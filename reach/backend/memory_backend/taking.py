"""take: hands over what may run, each entry checked against the ledger."""

from collections.abc import Collection, Sequence

from reach import ids
from reach.backend.memory_backend.asking import answers_of
from reach.backend.memory_backend.closing import give_back, lapse_leg
from reach.backend.memory_backend.health import barred
from reach.backend.memory_backend.partition import Partition
from reach.backend.memory_backend.sharing import unshare
from reach.backend.memory_backend.store import MessageRecord
from reach.backend.memory_backend.streams import Entry, Fields, Group, format_id, is_ahead, parse_id
from reach.backend.steps import Taken, TakeResult
from reach.envelope.ledger import LegState, ends_at_ms

MAX_TAKEN = 100
MAX_TAKEN_BYTES = 1 << 20
MAX_LOOKS = 300
LOW_TURN = 8


def take(
    part: Partition,
    agent: str,
    instance: str,
    free: int,
    held: Sequence[tuple[str, str]] | None,
    turn: int = 0,
    only: str = "",
) -> TakeResult:
    """Hand over at most `free` messages to one instance: lanes in order, every eighth from the lowest first. `only`: of one lane."""
    taking = _Taking(part, agent, instance, free, turn, only)
    if held is not None:
        taking.resume(set(held))
    taking.fill()
    cursors = {
        lane: format_id(group.last_delivered) if group is not None else "0-0"
        for lane, group in taking.groups.items()
        if only in {"", lane}
    }
    return TakeResult(tuple(taking.taken), cursors, gone=taking.gone, expired=taking.expired, more=taking.more)


def untaken(part: Partition, agent: str) -> dict[str, bool]:
    """Lane -> whether something lies there that nobody has taken; yes also where that cannot be seen."""
    return {lane: _has_untaken(part, agent, lane) for lane, _ in part.lanes(agent)}


def _has_untaken(part: Partition, agent: str, lane: str) -> bool:
    inbox, group = part.inbox(agent, lane), part.readers(agent, lane)
    return inbox is None or group is None or len(inbox) > len(group.pending)


class _Taking:
    """One call of take."""

    def __init__(self, part: Partition, agent: str, instance: str, free: int, turn: int, only: str) -> None:
        self.part, self.agent, self.instance = part, agent, instance
        self.free, self.turn = min(free, MAX_TAKEN), turn
        self.groups: dict[str, Group | None] = {lane: part.readers(agent, lane) for lane, _ in part.lanes(agent)}
        self.taken: list[Taken] = []
        self.size_bytes = self.looks = self.expired = 0
        self.gone = self.more = False
        self._empty = {lane for lane in self.groups if only not in {"", lane}}

    @property
    def room(self) -> bool:
        """Whether this call may give one more: a large envelope is given alone, but it is given."""
        return len(self.taken) < self.free and self.size_bytes < MAX_TAKEN_BYTES and self.looks < MAX_LOOKS

    def resume(self, held: Collection[tuple[str, str]]) -> None:
        """After a lost connection: what is pending to this instance and not held comes again."""
        for lane, group in self.groups.items():
            for hand, fields in group.held_by(self.instance) if group is not None else ():
                if (lane, hand) in held or fields is None:
                    continue
                if not self.room:
                    self.more = True
                    break
                self._hand_over(lane, (hand, fields), resumed=True)

    def fill(self) -> None:
        """New entries, as long as there is room and somebody waits."""
        while self.room:
            found = self._read(lowest_first=(self.turn + len(self.taken) + 1) % LOW_TURN == 0)
            if found is None:
                return
            self._hand_over(*found, resumed=False)

    def _read(self, *, lowest_first: bool) -> tuple[str, Entry] | None:
        lanes = list(self.groups.items())
        for lane, group in reversed(lanes) if lowest_first else lanes:
            if lane in self._empty:
                continue
            entries = group.read(self.instance, 1, self.part.now_ms) if group is not None else []
            if entries:
                return lane, entries[0]
            self._empty.add(lane)
            self.gone = self.gone or group is None
        return None

    def _hand_over(self, lane: str, entry: Entry, *, resumed: bool) -> None:
        self.looks += 1
        offered = _offer(self.part, self.agent, self.instance, lane, entry, resumed=resumed)
        if isinstance(offered, Taken):
            self.taken.append(offered)
            self.size_bytes += len(offered.envelope)
        else:
            self.expired += offered


def _offer(part: Partition, agent: str, instance: str, lane: str, entry: Entry, *, resumed: bool) -> Taken | int:
    """Hand one entry over. What must not run is acknowledged and deleted: 1 where a live leg ended by it, else 0."""
    hand, fields = entry
    msg_id, number, record = _named(part, fields)
    leg = record.legs.get(number) if record is not None else None
    # The id alone proves nothing: another lane, or another agent's, may have the same.
    named = record is not None and leg is not None and (leg.hand, leg.agent, record.head.lane) == (hand, agent, lane)
    if named and leg is not None and leg.state == LegState.RUNNING and leg.instance and not resumed:
        # Only a lane that has lost its group gives an entry out twice: it is again pending to whoever runs it, who renews it, or not.
        group = part.readers(agent, lane)
        if group is not None:
            group.claim(leg.instance, [hand], part.now_ms)
        return 0
    mine = (
        named
        and leg is not None
        and (leg.state == LegState.QUEUED or (resumed and leg.state == LegState.RUNNING and leg.instance == instance))
    )
    if named and record is not None and leg is not None and leg.state is LegState.OBSERVED:
        return _shown(part, lane, hand, fields, record, agent)
    if record is None or leg is None or not mine:
        part.discard(agent, lane, hand)
        _heal(part, agent, lane, hand)
        return 0
    head = record.head
    ends_ms = ends_at_ms(head, leg)
    too_late = part.now_ms >= ends_ms or (not leg.handed and part.now_ms >= head.first_at_ms)
    envelope = fields.get(b"e") or part.kept_envelope(msg_id)
    if not too_late and leg.state is LegState.QUEUED and barred(part, agent, msg_id, number, hand):
        returned = give_back(part, msg_id, record, number, "", burn=False, wait_ms=0)
        part.save(msg_id, record)
        return int(not returned)
    if too_late or envelope is None:
        part.discard(agent, lane, hand)
        if not too_late:
            code, message = "backend.unavailable", "the bytes of the message are lost"
        elif part.now_ms >= ends_ms:
            code, message = "timeout.total", "its total time was over before it was taken"
        else:
            code, message = "ttl.expired", "its ttl was over before the first hand-over"
        lapse_leg(part, msg_id, record, number, LegState.EXPIRED, code, message)
        part.save(msg_id, record)
        _heal(part, agent, lane, hand)
        return 1
    unshare(part, record, number)
    record.change(
        number,
        state=LegState.RUNNING,
        instance=instance,
        taken_at_ms=leg.taken_at_ms or part.now_ms,
        alive_at_ms=part.now_ms,
        handed=True,
    )
    part.save(msg_id, record)
    return Taken(
        partition=part.number,
        lane=lane,
        hand=hand,
        msg_id=msg_id,
        leg=number,
        attempt=leg.attempt + 1,
        envelope=envelope,
        now_ms=part.now_ms,
        total_at_ms=ends_ms,
        processing_ms=head.processing_ms,
        answers=answers_of(leg),
    )


def _shown(part: Partition, lane: str, hand: str, fields: Fields, record: MessageRecord, agent: str) -> Taken | int:
    """A copy for who only observes: nobody answers for it, so it goes as it is handed over."""
    msg_id, number, _ = _named(part, fields)
    part.discard(agent, lane, hand)
    ends_ms = ends_at_ms(record.head, record.legs[number])
    envelope = fields.get(b"e") or part.kept_envelope(msg_id)
    if part.now_ms >= ends_ms or envelope is None:
        return 0
    return Taken(
        partition=part.number,
        lane=lane,
        hand=hand,
        msg_id=msg_id,
        leg=number,
        attempt=0,
        envelope=envelope,
        now_ms=part.now_ms,
        total_at_ms=ends_ms,
        processing_ms=record.head.processing_ms,
        observed=True,
    )


def _named(part: Partition, fields: Fields) -> tuple[str, int, MessageRecord | None]:
    """What an inbox entry is about. Anybody can write there, so anything can stand in it."""
    msg_id = fields.get(b"m", b"").decode(errors="replace")
    number = ids.count_of(fields.get(b"l", b""))
    if number is None:
        return msg_id, -1, None
    return msg_id, number, part.load(msg_id) if msg_id else None


def _heal(part: Partition, agent: str, lane: str, hand: str) -> None:
    stream = part.inbox(agent, lane)
    if stream is not None and is_ahead(parse_id(hand), part.now_ms):
        stream.rewind(part.now_ms, hands=True)
