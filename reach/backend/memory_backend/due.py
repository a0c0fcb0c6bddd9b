"""due: does what is due in the partition: totals, ttls, lost holders, network and waiting times."""

from dataclasses import dataclass, field

from reach.backend.memory_backend.closing import give_back, lapse_leg, own_answer
from reach.backend.memory_backend.health import lost_run
from reach.backend.memory_backend.lining import mend
from reach.backend.memory_backend.partition import Partition, next_moment
from reach.backend.memory_backend.staging import waits
from reach.backend.memory_backend.store import MessageRecord
from reach.backend.memory_backend.streams import Pending
from reach.backend.memory_backend.ticking import LEASE_MS, restamp, tick
from reach.backend.steps import Answer, DueEvent, DueReport
from reach.envelope.ledger import LegState, ends_at_ms

MAX_MESSAGES = 100
MAX_EVENTS = 500
MAX_LEGS = 20_000
#: two renewals of 5 s
MISSED_MS = 10_000
REARM_MS = (3_000, 6_000, 12_000)
LAST_REARM_MS = 15_000


def due(part: Partition, msg_id: str) -> DueReport:
    """At most 100 messages; with a msg_id only that one's total and ttl: no tick, no lease."""
    if msg_id:
        round_ = _Round(part, grace_until_ms=0, of_caller=True)
        deadline_at_ms = round_.look(msg_id, callers=True)
        return DueReport(
            tuple(round_.events), more=False, next_at_ms=0, now_ms=part.now_ms, deadline_at_ms=deadline_at_ms
        )
    ticked = tick(part)
    round_ = _Round(part, grace_until_ms=ticked.grace_until_ms)
    part.store.clear_wrong(part.keys.due(part.number), "zset")
    moments = part.store.zset(part.keys.due(part.number))
    ripe = moments.lowest(part.now_ms, MAX_MESSAGES) if moments is not None else []
    for ripe_id in ripe:
        if len(round_.events) < MAX_EVENTS and round_.seen < MAX_LEGS:
            round_.look(ripe_id, callers=False)
    moments = part.store.zset(part.keys.due(part.number))
    return DueReport(
        events=tuple(round_.events),
        more=ticked.left or len(ripe) >= MAX_MESSAGES or len(round_.events) >= MAX_EVENTS or round_.seen >= MAX_LEGS,
        next_at_ms=min(moments.values()) if moments else 0,
        now_ms=part.now_ms,
        grace_until_ms=round_.grace_until_ms,
    )


@dataclass(slots=True)
class _Round:
    """One run over the messages that are ripe."""

    part: Partition
    grace_until_ms: int
    of_caller: bool = False  # who hears of nothing but his own deadline
    events: list[DueEvent] = field(default_factory=list)
    seen: int = 0  # legs that were looked at

    def look(self, msg_id: str, *, callers: bool) -> int:
        """Do what is due of one message; its next moment, 0 when it has ended (or is unknown)."""
        part = self.part
        record = part.load(msg_id)
        if record is None or record.head.tombstones or record.head.open <= 0:
            part.disarm(msg_id)
            return 0
        self.seen += record.head.legs
        changed = False
        moments: list[int] = []
        for number in record.open_legs():
            if record.legs[number].finished_at_ms:  # with the stage that has just failed before it
                continue
            at_ms: int | None = record.legs[number].due_at_ms
            if callers:
                if self._overdue(msg_id, record, number):
                    at_ms, changed = None, True
            elif self._is_due(record, number):
                changed = True
                at_ms = part.now_ms if len(self.events) >= MAX_EVENTS else self._visit(msg_id, record, number)
                if at_ms is not None:
                    at_ms = next_moment(record.head, record.legs[number], at_ms)
                    record.change(number, due_at_ms=at_ms)
            if at_ms is not None:
                moments.append(at_ms)
        if changed:
            part.save(msg_id, record)
        if not callers and moments:
            part.due_moments()[msg_id] = min(moments)
        elif not callers:
            part.disarm(msg_id)
        return min(moments, default=record.head.total_at_ms) if record.head.open > 0 else 0

    def _is_due(self, record: MessageRecord, number: int) -> bool:
        """A lease is never further ahead than 15 s: a moment that is was made before the clock stepped back."""
        wait_ms = record.legs[number].due_at_ms - self.part.now_ms
        return wait_ms <= 0 or (wait_ms > LEASE_MS and self._pending(record, number) is not None)

    def _visit(self, msg_id: str, record: MessageRecord, number: int) -> int | None:
        """What is due of one leg; its next moment, None when it has ended."""
        if self._overdue(msg_id, record, number):
            return None
        part, may_ask = self.part, mend(self.part, msg_id, record)
        leg = record.legs[number]
        pending = self._pending(record, number)
        if pending is not None:
            return self._held(msg_id, record, number, pending)
        if leg.state in {LegState.QUEUED, LegState.RUNNING}:
            if part.inbox_entry(record, number) is None:
                return self._lost(msg_id, record, number, "gone", "agent.lost")
            part.make_readable(leg.agent, record.head.lane)  # where the group was lost, nobody could take it
            if leg.state == LegState.RUNNING:  # and who runs it may live: it has a lease to say so
                part.hold(leg.agent, record.head.lane, leg.instance, [leg.hand])
                return part.now_ms + LEASE_MS
            if part.now_ms < self.grace_until_ms:
                return self.grace_until_ms
            queued_at_ms = min(leg.queued_at_ms, part.now_ms)
            record.change(number, queued_at_ms=queued_at_ms)
            if part.now_ms < queued_at_ms + record.head.network_ms:
                return min(queued_at_ms + record.head.network_ms, part.now_ms + LEASE_MS)
        if leg.state == LegState.PARKED or waits(record, number):
            return ends_at_ms(record.head, leg)
        return self._ask(msg_id, record, number, may_ask=may_ask)

    def _ask(self, msg_id: str, record: MessageRecord, number: int, *, may_ask: bool) -> int:
        """Ask a router about a leg that may go on, unless it has to wait yet, or stands behind others."""
        part, leg = self.part, record.legs[number]
        if leg.state == LegState.WAITING and leg.until_ms > part.now_ms:
            return leg.until_ms
        if may_ask:
            self._note(msg_id, record, number, "again", "")
            part.append_again(msg_id, number, leg.hand)
        record.change(number, rearm=leg.rearm + 1)
        return part.now_ms + (REARM_MS[leg.rearm] if leg.rearm < len(REARM_MS) else LAST_REARM_MS)

    def _overdue(self, msg_id: str, record: MessageRecord, number: int) -> bool:
        """Whether the leg has ended now: its total is over, or its ttl before anybody had it."""
        part, head, leg = self.part, record.head, record.legs[number]
        if part.now_ms >= ends_at_ms(head, leg):
            lost_run(part, msg_id, record, number)
            code, message = "timeout.total", "the total time is over"
            if leg.state is LegState.PARKED:
                message = "nobody has answered in time"
            elif leg.state is LegState.WAITING and not leg.agent and head.total_ms <= head.network_ms:
                message = "nobody was found within total_ms, which is no longer than network_ms"
        elif not leg.handed and part.now_ms >= head.first_at_ms:
            if self._pending(record, number) is not None:  # a plain reader has it: the first hand-over was in time
                record.change(number, handed=True)
                return False
            code, message = "ttl.expired", "the ttl was over before the first hand-over"
        else:
            return False
        told = not self.of_caller
        lapse_leg(part, msg_id, record, number, LegState.EXPIRED, code, message, told=told)
        if not self._answered(msg_id, record, number):
            self._note(msg_id, record, number, "expired", code)
        return True

    def _held(self, msg_id: str, record: MessageRecord, number: int, pending: Pending) -> int | None:
        """Somebody holds the entry: its lease, and its processing time."""
        part, leg = self.part, record.legs[number]
        now_ms, idle_ms = part.now_ms, pending.idle_ms(part.now_ms)
        if not leg.taken_at_ms:
            record.change(number, taken_at_ms=now_ms - idle_ms, instance=pending.consumer)
        record.change(number, handed=True)
        leg = record.legs[number]
        restamp(pending, now_ms)
        if (leg.alive_at_ms or leg.taken_at_ms) > now_ms:  # the clock has stepped back: count anew from now
            record.change(number, taken_at_ms=min(leg.taken_at_ms, now_ms), alive_at_ms=now_ms)
            leg = record.legs[number]
        over_at_ms = (leg.alive_at_ms or leg.taken_at_ms) + record.head.processing_ms
        if now_ms < self.grace_until_ms:
            return self.grace_until_ms
        # Both may be over at once: who has missed two renewals is gone, not slow, and its work goes elsewhere without a back-off.
        if idle_ms >= LEASE_MS or (over_at_ms <= now_ms and idle_ms >= MISSED_MS):
            message = "its agent stopped renewing the lease"
            return self._lost(msg_id, record, number, "reclaimed", "agent.lost", message)
        if over_at_ms <= now_ms:
            message = "no sign of life of the handler in its processing time"
            return self._lost(msg_id, record, number, "overdue", "timeout.processing", message)
        return min(now_ms + LEASE_MS - idle_ms, over_at_ms)

    def _lost(
        self, msg_id: str, record: MessageRecord, number: int, what: str, code: str, message: str = ""
    ) -> int | None:
        """Give the leg back. With a message a run has been lost, which burns an attempt; without one its entry has."""
        self._note(msg_id, record, number, what, code)
        record.change(number, settled=False)
        answer = None
        if message:
            state = record.legs[number].state
            lost_run(self.part, msg_id, record, number, death=what == "reclaimed")
            answer = Answer("retryable", code, own_answer("retryable", code, message), f'{{"state":"{state}"}}')
        if give_back(self.part, msg_id, record, number, code, burn=answer is not None, answer=answer, told=True):
            return record.legs[number].due_at_ms
        self._answered(msg_id, record, number)
        return None

    def _pending(self, record: MessageRecord, number: int) -> Pending | None:
        leg = record.legs[number]
        if leg.state not in {LegState.QUEUED, LegState.RUNNING}:
            return None
        group = self.part.readers(leg.agent, record.head.lane)
        return group.pending_of(leg.hand) if group is not None else None

    def _note(self, msg_id: str, record: MessageRecord, number: int, what: str, code: str) -> None:
        leg = record.legs[number]
        if leg.by_agent:
            self.events.append(DueEvent(msg_id, number, what, leg.by_agent, leg.by_instance, leg.attempt, code))
        else:
            self.events.append(DueEvent(msg_id, number, what, leg.agent, leg.instance, leg.attempt + 1, code))

    def _answered(self, msg_id: str, record: MessageRecord, number: int) -> bool:
        """A leg that has ended with its best answer was answered, whatever has ended it."""
        leg = record.legs[number]
        if leg.by_agent:
            self._note(msg_id, record, number, "answered", leg.code)
        return bool(leg.by_agent)
