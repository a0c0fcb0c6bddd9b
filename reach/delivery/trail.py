"""What a router leaves behind for those who ask later: a hop record for each thing that a verdict made true."""

from typing import Protocol, Unpack

import msgspec

from reach.backend.steps import Again, Answer, DueEvent, Plan, Record, Refuse, RouteResult, Send
from reach.delivery.counting import RouteCounting
from reach.delivery.judge import Case, Reference
from reach.delivery.planning import FALLBACK
from reach.delivery.retry import code_of
from reach.envelope.codec import decode
from reach.envelope.ledger import LegState
from reach.errors import EnvelopeError
from reach.routing.steps import Choice, Delay, Finish, Observe, Why
from reach.tracing.contents import EnvelopeContent, ReceiptContent
from reach.tracing.hops import HopRecorder
from reach.tracing.record import Point, Told

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
        envelope = case.envelope
        if envelope is not None and case.refused is None:
            content = EnvelopeContent(case.data, envelope.payload.body, envelope.payload.schema or "")
            told: Told = {"pattern": envelope.target.pattern, "source": envelope.source.agent_id, "envelope": content}
            told["in_reply_to"] = envelope.in_reply_to or ""
            self._add(case, "message.received", **told)

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

    def buried(self, case: Case, burial: Send | Refuse, reason: str) -> None:
        """An entry that could not be applied is among the dead letters."""
        self._counting.buried(burial)
        msg_id = burial.msg_id if isinstance(burial, Send) else burial.dead["m"].decode()
        told: Told = {"code": "backend.unavailable", "chosen": reason[:200], "final": True}
        traceparent = None
        if case.envelope is not None:
            told["correlation_id"], told["type"] = case.envelope.conversation, case.envelope.type
            told["schema"], traceparent = case.envelope.payload.schema or "", case.envelope.traces.traceparent
        if isinstance(burial, Refuse) and burial.receipt:
            told["receipt"] = ReceiptContent(burial.receipt, schema=told.get("schema", ""), is_ours=True)
        elif isinstance(burial, Send) and burial.plans and burial.plans[0].answer is not None:
            told["receipt"] = _made(burial.plans[0].answer, told, msg_id, is_ours=True)
        self._hops.add(burial.entry.partition, "message.dead", msg_id, traceparent=traceparent, **told)

    def due(self, partition: int, event: DueEvent, record: Record | None) -> None:
        """What `due` did to a leg, and its record after that."""
        self._counting.expired(event)
        point = _DUE.get(event.what)
        if point is None:
            return
        told, traceparent = told_of(record)
        told["leg"], told["attempt"], told["code"] = event.leg, event.attempt, event.code
        told["agent"], told["instance"] = event.agent, event.instance
        if event.what in _DUE_ENDS:
            told["final"] = True
            self._put_receipt(told, record, event.leg, is_ours=event.what == "expired")
        self._hops.add(partition, point, event.msg_id, traceparent=traceparent, **told)

    def cancelled(self, partition: int, record: Record) -> None:
        """A cancel has ended the open legs of this record, which was read after it."""
        for number, leg in sorted(record.legs.items()):
            if leg.state is LegState.CANCELLED:
                told, traceparent = told_of(record)
                told["leg"], told["attempt"] = number, leg.attempt + 1 if leg.agent else 0
                told["agent"], told["instance"] = leg.agent, leg.instance
                told["code"], told["final"] = "cancelled", True
                self._put_receipt(told, record, number, is_ours=True)
                self._hops.add(partition, "message.cancelled", record.msg_id, traceparent=traceparent, **told)

    def settled(
        self, partition: int, before: Record, reference: Reference, answer: Answer, after: Record | None
    ) -> None:
        """An agent that records nothing itself has answered. `before`: with the bytes of the message; `after`: the ledger has it."""
        leg = before.legs[reference.leg]
        told, traceparent = told_of(before)
        told["leg"], told["attempt"], told["code"] = reference.leg, leg.attempt + 1, answer.code
        told["agent"], told["instance"] = leg.agent, leg.instance
        left = after.legs.get(reference.leg) if after is not None else None
        if left is not None and left.duration_ms:
            told["duration_us"] = left.duration_ms * 1000
        began = self.mark() - told.get("duration_us", 0)
        taken: Told = {**told, "code": "", "duration_us": 0}
        self._hops.add(partition, "agent.received", reference.msg_id, traceparent=traceparent, mark=began, **taken)
        if left is not None and left.hand == reference.hand and left.finished_at_ms:
            told["final"] = True
            self._put_receipt(told, after, reference.leg)
        else:
            told["receipt"] = _made(answer, told, reference.msg_id)
        self._hops.add(partition, "agent.completed", reference.msg_id, traceparent=traceparent, **told)

    @staticmethod
    def _put_receipt(told: Told, record: Record | None, leg: int, *, is_ours: bool = False) -> None:
        receipt = record.receipts.get(leg) if record is not None else None
        if receipt:
            told["receipt"] = ReceiptContent(receipt, schema=told.get("schema"), is_ours=is_ours)

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
        self._hops.add(case.entry.partition, "message.rejected", error.msg_id or "", traceparent=traceparent, **told)

    def _sent(self, case: Case, send: Send, result: RouteResult, mark: int, decided_us: int) -> None:
        choice = case.choice
        if choice is None:
            return
        if result.known in _REJECTED:
            self._add(case, "message.rejected", code=_REJECTED[result.known], final=True)
        elif result.known == "tombstone":
            self._add(case, "message.cancelled", code="cancelled", final=True)
        if result.known:
            return
        self._matched(case, choice, mark, decided_us)
        for leg, step in enumerate(choice.steps):
            hand = result.hands[leg] if leg < len(result.hands) else ""
            if hand and not isinstance(step, Observe):
                self._add(case, "route.sent", leg=leg, attempt=1, agent=send.plans[leg].agent, mark=mark)
            elif isinstance(step, Finish):
                self._ended(case, step, send.plans[leg], leg, 0, step.code)

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
        told: Told = {"leg": leg, "attempt": attempt, "code": code, "agent": agent}
        if why.counts:
            told |= {"candidates": why.candidates, "counts": why.counts, "policy": case.policy}
        self._end(case, point, told, plan.answer, is_ours=not step.last)

    def _end(self, case: Case, point: Point, told: Told, answer: Answer | None, *, is_ours: bool = False) -> None:
        """A leg has ended, with this answer."""
        told["final"] = True
        if answer is not None:
            envelope = case.envelope
            msg_id = envelope.msg_id if envelope is not None else case.reference.msg_id if case.reference else ""
            facts: Told = {"schema": (envelope.payload.schema or "") if envelope is not None else ""}
            if envelope is not None:
                facts["correlation_id"] = envelope.conversation
            told["receipt"] = _made(answer, facts | told, msg_id, is_ours=is_ours)
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

    def _add(self, case: Case, point: Point, *, mark: int | None = None, **told: Unpack[Told]) -> None:
        envelope = case.envelope
        if envelope is None:
            msg_id = case.reference.msg_id if case.reference is not None else ""
            self._hops.add(case.entry.partition, point, msg_id, mark=mark, **told)
            return
        told["correlation_id"] = envelope.conversation
        told["type"] = envelope.type
        if envelope.payload.schema:
            told["schema"] = envelope.payload.schema
        traceparent = envelope.traces.traceparent
        self._hops.add(case.entry.partition, point, envelope.msg_id, traceparent=traceparent, mark=mark, **told)


def told_of(record: Record | None) -> tuple[Told, str | None]:
    """What a record says of its message, and the trace that it belongs to; little where its bytes are gone."""
    if record is None:
        return {}, None
    if record.envelope:
        try:
            envelope = decode(record.envelope, max_bytes=len(record.envelope))
        except EnvelopeError:
            return {"correlation_id": conversation_of(record)}, None
        schema = envelope.payload.schema or ""
        told: Told = {"correlation_id": envelope.conversation, "type": envelope.type, "schema": schema}
        return told, envelope.traces.traceparent
    return {"correlation_id": conversation_of(record)}, None


def _made(answer: Answer, told: Told, msg_id: str, *, is_ours: bool = False) -> ReceiptContent:
    """A receipt, as far as a router knows it."""
    facts: dict[str, str | int | None] = {
        "msg_id": msg_id,
        "correlation_id": told.get("correlation_id") or msg_id,
        "leg": told.get("leg", 0),
        "target_agent": told.get("agent") or None,
        "target_instance": told.get("instance") or None,
        "attempts": told.get("attempt", 0),
    }
    return ReceiptContent(answer.core, answer.details, facts, told.get("schema"), is_ours)


def conversation_of(record: Record) -> str:
    """The conversation that a record's message belongs to; "" where nobody can tell."""
    try:
        return _read("{" + record.head.members + "}").correlation_id
    except (msgspec.DecodeError, UnicodeEncodeError):
        return ""
