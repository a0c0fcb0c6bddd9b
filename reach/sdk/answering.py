"""The questions of handlers that come back to their caller, and its answers. While one is open, the caller's total stands still."""

import hashlib
import random
from collections.abc import Callable, Coroutine
from typing import Any, Protocol

from reach.backend.port import Backend
from reach.backend.steps import Record
from reach.clock import Clock
from reach.envelope.ledger import OPEN_STATES, Leg, LegState, ends_at_ms
from reach.envelope.receipt import Notice
from reach.envelope.rules import partition_of
from reach.errors import AnswerRefused, BackendError
from reach.log import event_log
from reach.sdk.bodies import decode_body
from reach.sdk.giving_up import GivingUp
from reach.sdk.pending import Pending, Question
from reach.sdk.questions import written
from reach.sdk.threads import in_thread, is_async
from reach.service import pause_ms
from reach.tracing.hops import HopRecorder

log = event_log("reach.client")

#: how often the record of a message that asks is looked at: the notice of somebody else's answer may be lost, and so may everything
LOOK_MS = 60_000
MAX_TRIES = 6


class Client(Protocol):
    """The exchange, as far as it is needed here."""

    backend: Backend
    clock: Clock
    rng: random.Random
    giving_up: GivingUp
    recorder: HopRecorder

    def own(self, run: Coroutine[Any, Any, None], name: str) -> None: ...


class Answering:
    """What the messages of one client ask. For one event loop."""

    def __init__(self, client: Client, move: Callable[[Pending, int], None], look: Callable[[Pending], None]) -> None:
        """`move` gives a wait another deadline, `look` has a record read."""
        self._client, self._move, self._look = client, move, look
        self._backend, self._clock = client.backend, client.clock

    # ------------------------------------------------------------ what is heard

    def hear(self, pending: Pending, notice: Notice) -> bool:
        """Take over a question, or that one is answered. True: the deadline is judged by it."""
        fields, now = notice.fields, self._clock.monotonic_ms()
        leg, hand, left_ms = fields.get("leg"), fields.get("hand"), fields.get("left_ms")
        if not isinstance(leg, int) or not isinstance(hand, str) or not isinstance(left_ms, int):
            return False
        if notice.notice == "input_required":
            open_ms = fields.get("open_ms")
            if isinstance(open_ms, int) and fields.get("round", pending.round) == pending.round:
                self._asked(pending, Question(leg, hand, fields.get("prompt"), now + open_ms, left_ms))
            return True
        if notice.notice == "routed":
            self._answered(pending, leg, left_ms)
        return notice.notice == "routed"

    def compare(self, pending: Pending, record: Record | None) -> None:
        """Take over what the ledger says: a notice may be lost, and so may the record."""
        if record is None:
            for question in list(pending.questions.values()):
                self._answered(pending, question.leg, question.left_ms)
            return
        if record.head.sender != pending.sender or record.head.round != pending.round:
            return
        for number, leg in record.legs.items():
            left_ms = ends_at_ms(record.head, leg) - record.now_ms
            if leg.state is LegState.PARKED:
                self._asked(pending, _question(number, leg, self._clock.monotonic_ms() + left_ms))
            elif number in pending.questions:
                self._answered(pending, number, left_ms if leg.state in OPEN_STATES else 0)

    def expect(self, pending: Pending) -> None:
        """Its caller can answer from now on: also a total that it has set itself stands still."""
        pending.answers = True
        if pending.questions and not pending.paused:
            self._pause(pending)

    def _asked(self, pending: Pending, question: Question) -> None:
        known = pending.questions.get(question.leg)
        pending.questions[question.leg] = question
        if pending.done.done():
            return
        if pending.answers or not pending.fixed:
            self._pause(pending)
        if pending.on_input is not None and (known is None or known.hand != question.hand):
            self._client.own(self._answer_by(pending, pending.on_input, question), f"answer {pending.msg_id}")

    def _pause(self, pending: Pending) -> None:
        if not pending.paused:
            pending.paused, pending.total_ms = True, pending.deadline_at_ms - pending.counts_from_ms
        ends = [question.open_until_ms for question in pending.questions.values()]
        self._move(pending, max([*ends, pending.counts_from_ms + pending.total_ms] if pending.broadcast else ends))
        pending.timers.append(self._clock.call_later(LOOK_MS, lambda: self._look_again(pending)))

    def _look_again(self, pending: Pending) -> None:
        if pending.paused and not pending.done.done():
            pending.timers.append(self._clock.call_later(LOOK_MS, lambda: self._look_again(pending)))
            self._look(pending)

    def _answered(self, pending: Pending, leg: int, left_ms: int) -> None:
        """It goes on, with what was left of its total."""
        pending.questions.pop(leg, None)
        if pending.done.done() or (pending.fixed and not pending.answers):
            return
        if pending.broadcast and pending.questions:
            self._pause(pending)
            return
        total_ms = pending.total_ms if pending.paused else pending.deadline_at_ms - pending.counts_from_ms
        pending.paused = False
        ends_ms = self._clock.monotonic_ms() + left_ms
        if pending.broadcast:
            ends_ms = max(ends_ms, pending.counts_from_ms + total_ms)
        pending.counts_from_ms = ends_ms - total_ms
        self._move(pending, ends_ms)

    # ------------------------------------------------------------ what is said

    async def answer(self, pending: Pending, value: object, leg: int | None) -> None:
        """Answer the open question of this leg, or the only one. Raises as `Handle.answer`."""
        data = written("the answer", value)
        if not pending.questions:  # it may be older than this wait
            record = await self._backend.inspect(pending.partition, pending.msg_id)
            self.compare(pending, record)
        asked = {number: question.hand for number, question in pending.questions.items()}
        number = which(asked, leg, pending.msg_id)
        await self.tell(pending.partition, pending.msg_id, pending.sender, number, asked[number], data)

    async def answer_by_id(self, msg_id: str, sender: str, value: object, leg: int | None) -> None:
        """The same for a message that nobody waits for here. Raises as `Reach.answer`."""
        data = written("the answer", value)
        own = partition_of(msg_id, None, self._backend.partitions)
        why = "unknown"
        # With an order_key it lies in another partition, which the id alone does not say; and a stranger's may have the same id.
        for partition in sorted(range(self._backend.partitions), key=lambda each: each != own):
            record = await self._backend.inspect(partition, msg_id)
            if record is None or record.head.tombstones:
                continue
            if record.head.sender != sender:
                why = "denied"
                continue
            asked = {n: each.hand for n, each in record.legs.items() if each.state is LegState.PARKED}
            number = which(asked, leg, msg_id)
            await self.tell(partition, msg_id, sender, number, asked[number], data)
            return
        raise _refused(why, msg_id)

    async def tell(self, partition: int, msg_id: str, sender: str, leg: int, hand: str, data: bytes) -> None:
        """Answer one question; where the outcome is unknown, once more.

        Raises:
            AnswerRefused: It was not taken.
            BackendError: Redis cannot be asked.
        """
        failures, verdict = 0, "unknown"
        while True:
            try:
                verdict = await self._backend.answer(partition, msg_id, sender, leg, hand, data)
            except BackendError as error:
                failures += 1
                if not error.retryable or failures >= MAX_TRIES:
                    raise
                await self._clock.sleep(pause_ms(failures, self._client.rng))
                continue
            break
        if verdict == "stale" and failures and await self._was_ours(partition, msg_id, leg, hand, data):
            return
        if verdict != "done":
            raise _refused(verdict, msg_id)

    async def _was_ours(self, partition: int, msg_id: str, number: int, hand: str, data: bytes) -> bool:
        """Whether the try whose reply was lost has been taken."""
        record = await self._backend.inspect(partition, msg_id, number)
        leg = record.legs.get(number) if record is not None else None
        return leg is not None and leg.answered == hashlib.sha1(hand.encode() + data, usedforsecurity=False).hexdigest()

    async def _answer_by(self, pending: Pending, on_input: Callable[[Any], Any], question: Question) -> None:
        try:
            if is_async(on_input):
                value = await on_input(question.prompt)
            else:
                value = await in_thread(lambda: on_input(question.prompt), lambda _: None)
            data = written("the answer", value)
            await self.tell(pending.partition, pending.msg_id, pending.sender, question.leg, question.hand, data)
        except AnswerRefused as error:  # somebody else was quicker, or it was cancelled meanwhile
            log.info("answer not taken", extra={"msg_id": pending.msg_id, "error": error.code})
        except Exception as error:  # the user's function, or Redis: it goes to who waits
            told = await self._client.recorder.tellable(error, None)
            log.warning("not answered", extra={"msg_id": pending.msg_id}, exc_info=told)
            if pending.raises:
                self._client.giving_up.begin(pending)
                pending.fail(error)


_WHY = {
    "stale": "that question is answered already, or not open any more",
    "denied": "somebody else has sent this message",
    "unknown": "there is no such message, or not any more",
}


def _refused(verdict: str, msg_id: str) -> AnswerRefused:
    return AnswerRefused(_WHY[verdict], code=f"answer.{verdict}", details={"msg_id": msg_id})


def which(asked: dict[int, str], leg: int | None, msg_id: str) -> int:
    """The leg whose question is meant.

    Raises:
        AnswerRefused: It asks nothing, or several do.
    """
    if not asked or (leg is not None and leg not in asked):
        raise AnswerRefused("nothing is asked", details={"msg_id": msg_id})
    if leg is None and len(asked) > 1:
        text = f"{len(asked)} legs ask: say which one is answered"
        raise AnswerRefused(text, code="answer.which_leg", details={"msg_id": msg_id, "legs": sorted(asked)})
    return next(iter(asked)) if leg is None else leg


def _question(number: int, leg: Leg, open_until_ms: int) -> Question:
    return Question(number, leg.hand, decode_body(leg.prompt.encode(), Any), open_until_ms, leg.left_ms)
