"""What a router leaves behind for those who ask later: a hop record for each thing that a verdict made true."""

from typing import Protocol, Unpack

import msgspec

from reach.backend.steps import Again, DueEvent, Record, Refuse, RouteResult, Send
from reach.delivery.counting import RouteCounting
from reach.delivery.judge import Case, Reference
from reach.delivery.planning import FALLBACK
from reach.delivery.retry import code_of
from reach.envelope.ledger import Leg, LegState
from reach.routing.steps import Choice, Delay, Finish, Observe, Why
from reach.tracing.hops import HopRecorder, Point, Told

_REJECTED = {"conflict": "envelope.id_conflict", "overloaded": "overloaded"}
_DUE: dict[str, Point] = {
    "expired": "message.expired",
    "reclaimed": "message.reclaimed",
    "overdue": "message.reclaimed",
    "gone": "message.reclaimed",
    "answered": "agent.completed",
}
NO_WHY = Why()
_EXPIRED = frozenset({"timeout.total", "ttl.expired"})


class _Members(msgspec.Struct):
    correlation_id: str = ""


_read = msgspec.json.Decoder(_Members).decode


class Counting(Protocol):
    """Whoever counts decisions."""

    def routed(self, case: Case, result: RouteResult) -> None: ...


class Trail:
    """Writes the records of one router."""

    def __init__(self, hops: HopRecorder, counter: Counting | None = None) -> None:
        """`counter` hears of every decision that was applied."""
        self._hops, self._counter, self._counting = hops, counter, RouteCounting(hops.tally)

    def mark(self) -> int:
        """This moment, µs, for a record that is added later."""
        return self._hops.base.mark()

    def received(self, case: Case) -> None:
        """An envelope has been read and is valid."""
        if case.envelope is not None and case.refused is None:
            self._add(case, "message.received", pattern=case.envelope.target.pattern)

    def routed(self, case: Case, result: RouteResult, mark: int, decided_us: int) -> None:
        """A decision has been applied. `mark`: when it was sent off, so that nothing that follows from it seems to come first."""
        self._counting.routed(case, result)
        if self._counter is not None:
            self._counter.routed(case, result)
        if case.refused is not None and not result.known:
            self._rejected(case)
        elif isinstance(case.decision, Send):
            self._sent(case, case.decision, result, mark, decided_us)
        elif isinstance(case.decision, Again) and result.known != "silent":
            self._decided(case, case.decision, result, mark, decided_us)

    def buried(self, burial: Send | Refuse, reason: str) -> None:
        """An entry that could not be applied is among the dead letters."""
        self._counting.buried(burial)
        msg_id = burial.msg_id if isinstance(burial, Send) else burial.dead["m"].decode()
        self._hops.add(burial.entry.partition, "message.dead", msg_id, code="backend.unavailable", chosen=reason[:200])

    def due(self, partition: int, event: DueEvent, correlation_id: str) -> None:
        """What `due` did to a leg."""
        self._counting.expired(event)
        point = _DUE.get(event.what)
        if point is not None:
            self._hops.add(
                partition,
                point,
                event.msg_id,
                leg=event.leg,
                attempt=event.attempt,
                correlation_id=correlation_id,
                agent=event.agent,
                instance=event.instance,
                code=event.code,
            )

    def cancelled(self, partition: int, record: Record) -> None:
        """A cancel has ended the open legs of this record, which was read after it."""
        for number, leg in sorted(record.legs.items()):
            if leg.state is LegState.CANCELLED:
                self._hops.add(
                    partition,
                    "message.cancelled",
                    record.msg_id,
                    leg=number,
                    attempt=leg.attempt + 1 if leg.agent else 0,
                    correlation_id=conversation_of(record),
                    agent=leg.agent,
                    instance=leg.instance,
                    code="cancelled",
                )

    def settled(self, partition: int, reference: Reference, leg: Leg, code: str, correlation_id: str) -> None:
        """An agent that records nothing itself has answered."""
        self._hops.add(
            partition,
            "agent.completed",
            reference.msg_id,
            leg=reference.leg,
            attempt=leg.attempt + 1,
            correlation_id=correlation_id,
            agent=leg.agent,
            instance=leg.instance,
            code=code,
        )

    def _rejected(self, case: Case) -> None:
        error = case.refused
        if error is not None:
            self._hops.add(
                case.entry.partition,
                "message.rejected",
                error.msg_id or "",
                correlation_id=error.correlation_id or error.msg_id or "",
                agent=error.source or "",
                code=error.code,
                counts={"bytes": len(case.data)},
            )

    def _sent(self, case: Case, send: Send, result: RouteResult, mark: int, decided_us: int) -> None:
        choice = case.choice
        if choice is None:
            return
        if result.known in _REJECTED:
            self._add(case, "message.rejected", code=_REJECTED[result.known])
        elif result.known == "tombstone":
            self._add(case, "message.cancelled", code="cancelled")
        if result.known:
            return
        self._matched(case, choice, mark, decided_us)
        for leg, step in enumerate(choice.steps):
            hand = result.hands[leg] if leg < len(result.hands) else ""
            if hand and not isinstance(step, Observe):
                self._add(case, "route.sent", leg=leg, attempt=1, agent=send.plans[leg].agent, mark=mark)
            elif isinstance(step, Finish):
                self._ended(case, step, leg, 0, step.code)

    def _decided(self, case: Case, again: Again, result: RouteResult, mark: int, decided_us: int) -> None:
        self._stage(case, again, result, mark)
        choice, leg = case.choice, case.leg
        if choice is None or leg is None or again.plan.act == "stay":
            return
        step = choice.steps[0]
        hand = result.hands[0] if result.hands else ""
        if again.state is LegState.RETURNED and not isinstance(step, Finish):
            self._add(
                case,
                "message.retried",
                leg=again.leg,
                attempt=leg.attempt,
                code=code_of(leg),
                agent=leg.agent,
                counts={"wait_ms": again.plan.wait_ms} if isinstance(step, Delay) else {},
            )
        if isinstance(step, Finish) and leg.best is not None:  # whatever the router found: it ends with an answer
            self._add(
                case,
                "agent.completed",
                leg=again.leg,
                attempt=leg.attempt,
                agent=leg.best.agent,
                instance=leg.best.instance,
                code=leg.best.code,
            )
        elif isinstance(step, Finish):
            self._ended(case, step, again.leg, leg.attempt, code_of(leg) if step.last else step.code, choice.why)
        elif hand:
            self._matched(case, choice, mark, decided_us, again.leg, leg.attempt + 1)
            moved = again.plan.act == "move"
            self._add(
                case,
                "message.moved" if moved else "route.sent",
                leg=again.leg,
                attempt=leg.attempt + 1,
                agent=again.plan.agent,
                code="timeout.network" if moved else "",
                mark=mark,
            )

    def _stage(self, case: Case, again: Again, result: RouteResult, mark: int) -> None:
        """The other legs of a stage that has begun with this one."""
        for (leg, choice), hand in zip(case.others.items(), result.hands[1:], strict=False):
            step = choice.steps[0]
            if hand:
                self._add(case, "route.sent", leg=leg, attempt=1, agent=again.others[leg].agent, mark=mark)
            elif isinstance(step, Finish):
                self._ended(case, step, leg, 0, step.code)

    def _ended(self, case: Case, step: Finish, leg: int, attempt: int, code: str, why: Why = NO_WHY) -> None:
        """`why`: who was seen, where no record of its own says so."""
        point: Point = "message.dead" if step.dead else "message.expired" if code in _EXPIRED else "route.failed"
        if code == "type.unregistered":  # what is refused at the door, once nobody is waited for any more
            point = "message.rejected"
        self._counting.ended(point, attempt, code)
        told: Told = {"leg": leg, "attempt": attempt, "code": code}
        if why.counts:
            told |= {"candidates": why.candidates, "counts": why.counts}
        self._add(case, point, **told)

    def _matched(self, case: Case, choice: Choice, mark: int, decided_us: int, leg: int = 0, attempt: int = 0) -> None:
        why: Why = choice.why
        if not why.counts:
            return
        self._add(
            case,
            "route.matched",
            leg=leg,
            attempt=attempt,
            pattern=case.envelope.target.pattern if case.envelope is not None else "",
            strategy=why.strategy,
            candidates=why.candidates,
            counts=why.counts,
            chosen=",".join(why.chosen),
            via=FALLBACK if why.via else "",
            fallback=why.via,
            tier=why.tier,
            duration_us=decided_us,
            mark=mark,
        )

    def _add(self, case: Case, point: Point, *, mark: int | None = None, **told: Unpack[Told]) -> None:
        envelope = case.envelope
        if envelope is None:
            msg_id = case.reference.msg_id if case.reference is not None else ""
            self._hops.add(case.entry.partition, point, msg_id, mark=mark, **told)
            return
        told["correlation_id"] = envelope.conversation
        if envelope.payload.schema:
            told["schema"] = envelope.payload.schema
        traceparent = envelope.traces.traceparent
        self._hops.add(case.entry.partition, point, envelope.msg_id, traceparent=traceparent, mark=mark, **told)


def conversation_of(record: Record) -> str:
    """The conversation that a record's message belongs to; "" where nobody can tell."""
    try:
        return _read("{" + record.head.members + "}").correlation_id
    except (msgspec.DecodeError, UnicodeEncodeError):
        return ""
