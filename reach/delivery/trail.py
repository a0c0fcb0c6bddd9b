"""What a router leaves behind for those who ask later: a hop record for each thing that a verdict made true."""

from collections.abc import Sequence
from typing import Protocol, Unpack

from reach.backend.steps import Again, Answer, DueEvent, Plan, Record, Refuse, RouteResult, Send
from reach.delivery.counting import RouteCounting
from reach.delivery.judge import Case
from reach.delivery.planning import FALLBACK
from reach.delivery.reopened import reopens_legs
from reach.delivery.retry import code_of
from reach.delivery.telling import made, put_receipt, tell_delivered, told_of
from reach.envelope.ledger import LegState
from reach.routing.steps import Choice, Delay, Finish, Observe, Why
from reach.tracing.contents import EnvelopeContent, ReceiptContent
from reach.tracing.hops import HopRecorder
from reach.tracing.naming import DUPLICATE
from reach.tracing.record import Came, Point, Told

#: verdicts on a message that is known: what has come is a copy of it
_COPIES = frozenset({"duplicate", "conflict", "overloaded"})
_REJECTED = {"conflict": "envelope.id_conflict", "overloaded": "overloaded"}
_DUE: dict[str, Point] = {
    "expired": "message.expired",
    "reclaimed": "message.reclaimed",
    "overdue": "message.reclaimed",
    "gone": "message.reclaimed",
    "answered": "agent.completed",
}
NO_WHY = Why()
_DUE_ENDS = frozenset({"expired", "answered"})
_EXPIRED = frozenset({"timeout.total", "ttl.expired"})


class Counting(Protocol):
    """Whoever counts decisions."""

    def routed(self, case: Case, result: RouteResult) -> None: ...


class Trail:
    """Writes the records of one router."""

    def __init__(self, hops: HopRecorder, counter: Counting | None = None) -> None:
        """`counter` hears of every decision that was applied."""
        self._hops, self._counter, self._counting = hops, counter, RouteCounting(hops.tally)

    @property
    def hops(self) -> HopRecorder:
        """Where they go."""
        return self._hops

    def mark(self) -> int:
        """This moment, µs, for a record that is added later."""
        return self._hops.base.mark()

    def received(self, case: Case) -> None:
        """An envelope has been read and is valid. What it is (new, or a copy) is known with its verdict: then it is recorded."""
        if case.envelope is not None and case.refused is None:
            case.read_mark = self.mark()

    def unanswered(self, case: Case) -> None:
        """What became of it is not known here: the reply was lost, or another has it. That it came is; the span is the same twice."""
        self._arrived(case)

    def routed(self, case: Case, result: RouteResult, mark: int, decided_us: int) -> None:
        """A decision has been applied. `mark`: when it was sent off, so that nothing that follows from it seems to come first."""
        self._counting.routed(case, result)
        if self._counter is not None:
            self._counter.routed(case, result)
        case.routed_mark = mark
        self._arrived(case, DUPLICATE if _is_copy(result) else "")
        if case.refused is not None and not result.known:
            self._rejected(case)
        elif isinstance(case.decision, Send):
            self._sent(case, case.decision, result, mark, decided_us)
        elif isinstance(case.decision, Again) and result.known != "silent":
            self._decided(case, case.decision, result, mark, decided_us)

    def buried(self, case: Case, burial: Send | Refuse, reason: str) -> None:
        """An entry that could not be applied is among the dead letters."""
        self._counting.buried(burial)
        self._arrived(case)
        msg_id = burial.msg_id if isinstance(burial, Send) else burial.dead["m"].decode()
        told: Told = {"code": "backend.unavailable", "chosen": reason[:200], "final": True, "round": _round_of(case)}
        traceparent = None
        if case.envelope is not None:
            told["correlation_id"], told["type"] = case.envelope.conversation, case.envelope.type
            told["schema"], traceparent = case.envelope.payload.schema or "", case.envelope.traces.traceparent
        if isinstance(burial, Refuse) and burial.receipt:
            told["receipt"] = ReceiptContent(burial.receipt, schema=told.get("schema", ""), is_ours=True)
        boxes: Sequence[str] = [burial.reply_to if isinstance(burial, Send) else burial.mailbox]
        boxes = case.record.head.mailboxes if case.record is not None else boxes
        for leg, agent in _buried_legs(case, burial):
            of: Told = {**told, "leg": leg, "agent": agent}
            if isinstance(burial, Send) and burial.plans and burial.plans[0].answer is not None:
                of["receipt"] = made(burial.plans[0].answer, of, msg_id, is_ours=True)
            self._hops.add(burial.entry.partition, "message.dead", msg_id, traceparent=traceparent, **of)
            tell_delivered(self._hops, burial.entry.partition, msg_id, of, boxes, traceparent)

    def due(self, partition: int, event: DueEvent, record: Record | None, mark: int) -> None:
        """What `due`, asked at `mark`, did to a leg, and its record after that."""
        self._counting.expired(event)
        point = _DUE.get(event.what)
        if point is None:
            return
        told, traceparent = told_of(record)
        told["leg"], told["attempt"], told["code"] = event.leg, event.attempt, event.code
        told["agent"], told["instance"] = event.agent, event.instance
        leg = record.legs.get(event.leg) if record is not None else None
        if leg is not None and leg.agent == event.agent:
            told["hand"] = leg.hand
        if event.what in _DUE_ENDS:
            told["final"] = True
            put_receipt(told, record, event.leg, is_ours=event.what == "expired")
        self._hops.add(partition, point, event.msg_id, traceparent=traceparent, mark=mark, **told)
        if record is not None and told.get("final"):
            tell_delivered(self._hops, partition, event.msg_id, told, record.head.mailboxes, traceparent)

    def _rejected(self, case: Case) -> None:
        error = case.refused
        if error is None:
            return
        told: Told = {"correlation_id": error.correlation_id or error.msg_id or "", "agent": error.source or ""}
        told["code"], told["counts"], told["final"] = error.code, {"bytes": len(case.data)}, True
        if isinstance(case.decision, Refuse) and case.decision.receipt:
            told["receipt"] = ReceiptContent(case.decision.receipt, is_ours=True)
        traceparent = None
        if case.envelope is not None:
            told["type"], traceparent = case.envelope.type, case.envelope.traces.traceparent
            told["round"] = case.envelope.round
        told["came"] = "first" if case.read_mark is not None else ""
        partition, msg_id = case.entry.partition, error.msg_id or ""
        mark = case.routed_mark
        self._hops.add(partition, "message.rejected", msg_id, traceparent=traceparent, mark=mark, **told)
        tell_delivered(self._hops, partition, msg_id, told, [error.reply_to or ""], traceparent)

    def _sent(self, case: Case, send: Send, result: RouteResult, mark: int, decided_us: int) -> None:
        choice = case.choice
        if choice is None:
            return
        if result.known in _REJECTED:
            came: Came = "copy" if _is_copy(result) else "first"
            self._end(case, "message.rejected", {"code": _REJECTED[result.known], "came": came}, None)
        elif result.known == "tombstone":
            for leg in _cancelled_legs(case, send):
                self._end(case, "message.cancelled", {"leg": leg, "code": "cancelled"}, None)
        if result.known:
            return
        self._matched(case, choice, mark, decided_us)
        if reopens_legs(send, result):
            self._reopened(case, send, result, choice, mark)
            return
        for leg, step in enumerate(choice.steps):
            hand = result.hands[leg] if leg < len(result.hands) else ""
            if hand and not isinstance(step, Observe):
                self._add(case, "route.sent", leg=leg, attempt=1, agent=send.plans[leg].agent, hand=hand, mark=mark)
            elif isinstance(step, Finish):
                self._ended(case, step, send.plans[leg], leg, 0, step.code)

    def _reopened(self, case: Case, send: Send, result: RouteResult, choice: Choice, mark: int) -> None:
        """A later round of a broadcast: which legs it has opened, and whose they are, the ledger alone knows."""
        chosen = {plan.agent: (plan, step) for plan, step in zip(send.plans, choice.steps, strict=False)}
        for number, leg in case.record.legs.items() if case.record is not None else ():
            plan, step = chosen.get(leg.agent, (None, None))
            if leg.hand in result.hands and leg.state is not LegState.OBSERVED:
                self._add(case, "route.sent", leg=number, attempt=1, agent=leg.agent, hand=leg.hand, mark=mark)
            elif plan is not None and isinstance(step, Finish) and leg.hand == f"0-{send.head.round}":
                self._ended(case, step, plan, number, 0, step.code)

    def _decided(self, case: Case, again: Again, result: RouteResult, mark: int, decided_us: int) -> None:
        self._stage(case, again, result, mark)
        choice, leg = case.choice, case.leg
        if choice is None or leg is None or again.plan.act == "stay":
            return
        step = choice.steps[0]
        hand = result.hands[0] if result.hands else ""
        # Nobody has had it, or it was parked and goes on: no run has failed.
        has_run = (leg.handed or leg.attempt > 0) and leg.question_hand != leg.hand
        if again.state is LegState.RETURNED and has_run and not isinstance(step, Finish):
            self._add(
                case,
                "message.retried",
                leg=again.leg,
                attempt=leg.attempt + (leg.wait_ms >= 0),  # a free return is that of a run which was not counted
                code=code_of(leg),
                agent=leg.agent,
                hand=leg.hand,
                counts={"wait_ms": again.plan.wait_ms} if isinstance(step, Delay) else {},
                mark=mark,
            )
        if isinstance(step, Finish) and leg.best is not None:  # whatever the router found: it ends with an answer
            best = leg.best
            ended: Told = {"leg": again.leg, "attempt": leg.attempt, "agent": best.agent, "instance": best.instance}
            ended["code"] = best.code
            self._end(case, "agent.completed", ended, Answer("success", best.code, best.core, best.details or "{}"))
        elif isinstance(step, Finish):
            code = code_of(leg) if step.last else step.code
            self._ended(case, step, again.plan, again.leg, leg.attempt, code, choice.why)
        elif hand:
            self._matched(case, choice, mark, decided_us, again.leg, leg.attempt + 1)
            moved = again.plan.act == "move"
            self._add(
                case,
                "message.moved" if moved else "route.sent",
                leg=again.leg,
                attempt=leg.attempt + 1,
                agent=again.plan.agent,
                hand=hand,
                code="timeout.network" if moved else "",
                mark=mark,
            )

    def _stage(self, case: Case, again: Again, result: RouteResult, mark: int) -> None:
        """The other legs of a stage that has begun with this one."""
        for (leg, choice), hand in zip(case.others.items(), result.hands[1:], strict=False):
            step = choice.steps[0]
            if hand:
                agent = again.others[leg].agent
                self._add(case, "route.sent", leg=leg, attempt=1, agent=agent, hand=hand, mark=mark)
            elif isinstance(step, Finish):
                self._ended(case, step, again.others[leg], leg, 0, step.code)

    def _ended(
        self, case: Case, step: Finish, plan: Plan, leg: int, attempt: int, code: str, why: Why = NO_WHY
    ) -> None:
        """`why`: who was seen, where no record of its own says so."""
        point: Point = "message.dead" if step.dead else "message.expired" if code in _EXPIRED else "route.failed"
        if code == "type.unregistered":  # what is refused at the door, once nobody is waited for any more
            point = "message.rejected"
        self._counting.ended(point, attempt, code)
        agent = plan.agent or (case.leg.agent if case.leg is not None else "")
        told: Told = {"leg": leg, "attempt": attempt, "code": code, "agent": agent, "came": "first"}
        if why.counts:
            told |= {"candidates": why.candidates, "counts": why.counts, "policy": case.policy}
        self._end(case, point, told, plan.answer, is_ours=not step.last)

    def _end(self, case: Case, point: Point, told: Told, answer: Answer | None, *, is_ours: bool = False) -> None:
        """A leg has ended, with this answer."""
        if told.get("code") == "stage.failed" and _is_wide(case):
            return  # the script tells of each such end, since most are of legs that no decision is about
        told["final"] = True
        if answer is not None:
            envelope = case.envelope
            msg_id = envelope.msg_id if envelope is not None else case.reference.msg_id if case.reference else ""
            facts: Told = {"schema": (envelope.payload.schema or "") if envelope is not None else ""}
            if envelope is not None:
                facts["correlation_id"] = envelope.conversation
            told["receipt"] = made(answer, facts | told, msg_id, is_ours=is_ours)
        self._add(case, point, mark=case.routed_mark, **told)
        if case.envelope is not None:
            envelope, boxes = case.envelope, [case.envelope.reply_to or ""]
            boxes = list(case.record.head.mailboxes) if case.record is not None else boxes
            told["round"], told["correlation_id"], told["type"] = _round_of(case), envelope.conversation, envelope.type
            of = case.entry.partition, envelope.msg_id
            tell_delivered(self._hops, *of, told, boxes, envelope.traces.traceparent)

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
            policy=case.policy,
            candidates=why.candidates,
            counts=why.counts,
            chosen=",".join(why.chosen),
            via=FALLBACK if why.via else "",
            fallback=why.via,
            tier=why.tier,
            duration_us=decided_us,
            mark=mark,
        )

    def _arrived(self, case: Case, code: str = "") -> None:
        """The message has come, at the moment at which it was read. `code`: `duplicate` where it is known already."""
        envelope = case.envelope
        if envelope is None or case.read_mark is None:
            return
        content = EnvelopeContent(case.data, envelope.payload.body, envelope.payload.schema or "")
        told: Told = {"pattern": envelope.target.pattern, "source": envelope.source.agent_id, "envelope": content}
        told["in_reply_to"], told["code"] = envelope.in_reply_to or "", code
        self._add(case, "message.received", mark=case.read_mark, **told)

    def _add(self, case: Case, point: Point, *, mark: int | None = None, **told: Unpack[Told]) -> None:
        envelope, traceparent, msg_id = case.envelope, None, ""
        told["round"], told["entry"] = _round_of(case), f"{case.entry.stream.rpartition(':')[2]}:{case.entry.id}"
        if envelope is not None:
            msg_id, traceparent = envelope.msg_id, envelope.traces.traceparent
            told["correlation_id"] = envelope.conversation
            told["type"] = envelope.type
            if envelope.payload.schema:
                told["schema"] = envelope.payload.schema
        elif case.reference is not None:
            msg_id = case.reference.msg_id
        self._hops.add(case.entry.partition, point, msg_id, traceparent=traceparent, mark=mark, **told)


def _is_copy(result: RouteResult) -> bool:
    """Whether the message was known: a new one has legs, also where its line has no room for it."""
    return result.known in _COPIES and not result.hands


def _is_wide(case: Case) -> bool:
    """Whether it is a broadcast."""
    if case.record is not None:
        return case.record.head.scope == "all"
    return isinstance(case.decision, Send) and case.decision.head.scope == "all"


def _cancelled_legs(case: Case, send: Send) -> list[int]:
    """The legs that the cancel that was there first has ended; who would have observed them has none."""
    if case.record is not None:
        hand = f"0-{send.head.round}"  # what a later round has opened, and nobody has had
        return [number for number, leg in case.record.legs.items() if leg.hand == hand and leg.code == "cancelled"]
    return [number for number, plan in enumerate(send.plans) if plan.act != "observe"]


def _buried_legs(case: Case, burial: Send | Refuse) -> list[tuple[int, str]]:
    """The legs that end with a burial, and whose they are."""
    if isinstance(burial, Send):
        return [(leg, plan.agent) for leg, plan in enumerate(burial.plans)] or [(0, "")]
    if case.reference is not None:
        return [(case.reference.leg, case.leg.agent if case.leg is not None else "")]
    return [(0, "")]


def _round_of(case: Case) -> int:
    """The round that a case is about: the record knows, where there is one."""
    if case.record is not None:
        return case.record.head.round
    return case.envelope.round if case.envelope is not None else 1
