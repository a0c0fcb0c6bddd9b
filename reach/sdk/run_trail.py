"""What an agent leaves behind of its runs for those who ask later, as hop records."""

from collections.abc import Mapping

from reach.backend.port import Backend
from reach.backend.steps import Answer, SettleVerdict
from reach.clock import Clock
from reach.delivery.telling import tell_delivered
from reach.envelope.message import Envelope
from reach.errors import BackendError
from reach.log import PacedLog, event_log
from reach.sdk.run import Run
from reach.tracing.contents import ReceiptContent
from reach.tracing.hops import HopRecorder
from reach.tracing.record import Point, Told

log = event_log("reach.agent")

#: How the core of an answer ends that says nothing of confidence: it is as sure as anybody wants.
_SURE, _TAIL_CHARS = '"confidence":null,"partial":', 1_024


class RunTrail:
    """Writes them, for one instance of one agent."""

    def __init__(self, backend: Backend, recorder: HopRecorder, agent_id: str, instance_id: str, clock: Clock) -> None:
        self._backend, self._recorder, self._clock = backend, recorder, clock
        self._agent_id, self._instance_id = agent_id, instance_id
        self._log = PacedLog(log, clock)

    def reached(self, point: Point, run: Run, code: str = "") -> None:
        """A run has reached this point."""
        self._add(point, run, {"code": code})
        if point == "agent.responding":  # what others make of the answer must not seem to come before it
            run.answered_mark = self._recorder.base.mark()

    async def tellable(self, error: BaseException, envelope: Envelope | None) -> BaseException:
        """What of an error of the handler of this message may be logged; see `HopRecorder`."""
        return await self._recorder.tellable(error, None if envelope is None else envelope.payload.schema or "")

    async def settled(self, run: Run, answer: Answer, verdict: SettleVerdict) -> None:
        """The ledger has taken the answer of a run, or not."""
        if verdict != "done":
            self._add("agent.completed", run, {"code": verdict})
            return
        receipt = self._receipt(run, answer)
        ends: bool | None = _ends(run, answer)
        if ends is None:
            ends, receipt = await self._look(run, receipt)
        told: Told = {"code": answer.code, "receipt": receipt, "final": ends}
        self._add("agent.completed", run, told)
        envelope = run.envelope
        if ends and envelope is not None and envelope.reply_to:
            of, traceparent = run.taken.partition, envelope.traces.traceparent
            tell_delivered(self._recorder, of, run.taken.msg_id, told, [envelope.reply_to], traceparent)

    async def _look(self, run: Run, receipt: ReceiptContent) -> tuple[bool, ReceiptContent]:
        """Whether the leg has ended with this run, where only the ledger knows; and with what."""
        taken = run.taken
        try:
            record = await self._backend.inspect(taken.partition, taken.msg_id, taken.leg)
        except BackendError as error:  # the answer is in the ledger: only its record says less
            self._log.info("end of a run not seen", msg_id=taken.msg_id, error=error.code)
            return False, receipt
        leg = record.legs.get(taken.leg) if record is not None else None
        if record is None or leg is None or leg.hand != taken.hand or not leg.finished_at_ms:
            return False, receipt
        data = record.receipts.get(taken.leg)
        return True, ReceiptContent(data, schema=receipt.schema) if data else receipt

    def _receipt(self, run: Run, answer: Answer) -> ReceiptContent:
        taken, envelope = run.taken, run.envelope
        facts: Mapping[str, str | int | None] = {
            "msg_id": taken.msg_id,
            "task_id": envelope.task if envelope is not None else taken.msg_id,
            "correlation_id": envelope.conversation if envelope is not None else taken.msg_id,
            "leg": taken.leg,
            "round": envelope.round if envelope is not None else 1,
            "target_agent": self._agent_id,
            "target_instance": self._instance_id,
            "attempts": taken.attempt,
            "duration_ms": self._clock.monotonic_ms() - run.started_at_ms,
        }
        schema = (envelope.payload.schema or "") if envelope is not None else ""
        return ReceiptContent(answer.core, answer.details, facts, schema)

    def _add(self, point: Point, run: Run, told: Told) -> None:
        envelope, taken = run.envelope, run.taken
        told["leg"], told["attempt"], told["hand"] = taken.leg, taken.attempt, taken.hand
        told["agent"], told["instance"] = self._agent_id, self._instance_id
        traceparent = None
        if envelope is not None:
            traceparent = envelope.traces.traceparent
            told["round"], told["correlation_id"] = envelope.round, envelope.conversation
            told["pattern"], told["type"] = envelope.target.pattern, envelope.type
            told["schema"] = envelope.payload.schema or ""
        if point != "agent.received":
            told["duration_us"] = (self._clock.monotonic_ms() - run.started_at_ms) * 1000
        mark = run.answered_mark if point == "agent.completed" else None
        self._recorder.add(taken.partition, point, taken.msg_id, traceparent=traceparent, mark=mark, **told)


def _ends(run: Run, answer: Answer) -> bool | None:
    """Whether an answer that was taken ends its leg; None: the ledger knows."""
    if answer.status == "failed":
        return True
    if answer.status == "success":
        return True if _SURE in answer.core[-_TAIL_CHARS:] else None
    return False if run.taken.attempt == 1 else None  # a better answer of an earlier run may be kept
