"""The messages that an agent runs now: from taken to settled.

A run is answered once: by its handler's end, by a deadline, by a shutdown; or not at all when the ledger has taken it away.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any

from reach import ids
from reach.backend.port import Backend
from reach.backend.steps import Answer, Parking, SettleVerdict, Taken
from reach.clock import Clock
from reach.delivery.inbox import Hold, Inbox, hold_of
from reach.delivery.spending import Spender, spend, used_by
from reach.envelope.codec import decode
from reach.envelope.ledger import LegState
from reach.envelope.message import Envelope
from reach.envelope.registration import Registration
from reach.errors import EnvelopeError
from reach.log import PacedLog, event_log
from reach.sdk.context import Context
from reach.sdk.effects import Effects, guard_name
from reach.sdk.handlers import Handler, Handlers
from reach.sdk.outcome import Reject, Retry, failed, raised, retryable, succeeded
from reach.sdk.questions import Parked, parked_by
from reach.sdk.reading import Reading
from reach.sdk.run import Run
from reach.sdk.run_trail import RunTrail
from reach.sdk.schema_book import SchemaBook
from reach.sdk.sending import Origin
from reach.sdk.stand_ins import StandIns
from reach.sdk.telemetry import enter_run
from reach.service import Tasks
from reach.tracing.hops import HopRecorder

log = event_log("reach.agent")

REMEMBERED_OUTCOMES = 50
#: how long a message waits whose earlier run has not ended
EARLIER_WAIT_MS = 1_000
#: how long the mean response time remembers: each new run counts for so much
NEWEST_SHARE = 0.2


class Runs:
    """All of an agent's runs. For one event loop."""

    def __init__(
        self,
        *,
        backend: Backend,
        inbox: Inbox,
        handlers: Handlers,
        origin: Origin,
        recorder: HopRecorder,
        host: str,
        clock: Clock,
        on_change: Callable[[], None],
        declared: Registration | None = None,
    ) -> None:
        """`on_change` is told whenever a slot is filled or freed. `declared`: has the time and cost of handlers that declare none."""
        self._backend = backend
        self._inbox = inbox
        self._reading = Reading(
            handlers, SchemaBook(backend, clock), StandIns(backend, clock), PacedLog(log, clock), host=host
        )
        self._origin = origin
        self._tally = recorder.tally
        self._tally.agents.add(inbox.agent_id)
        self._trail = RunTrail(backend, recorder, inbox.agent_id, inbox.instance_id, clock)
        self._host = host
        self._clock = clock
        self._log = PacedLog(log, clock)
        self._on_change = on_change
        self._declared = declared or Registration(agent_id="", instance_id="")
        self._runs: dict[Hold, Run] = {}
        self._tasks = Tasks()
        self._settling = 0
        self._stir = asyncio.Event()
        self._effects = Effects(backend, clock, inbox.instance_id, self._stir.set)
        self._outcomes: deque[bool] = deque(maxlen=REMEMBERED_OUTCOMES)
        self.mean_ms: float | None = None

    def __len__(self) -> int:
        """How many slots are taken."""
        return len(self._runs)

    @property
    def success_rate(self) -> float | None:
        """Of the last 50 runs; None before the first has ended."""
        return sum(self._outcomes) / len(self._outcomes) if self._outcomes else None

    @property
    def effects(self) -> int:
        """How many guarded effects are under way, some of runs that are over."""
        return len(self._effects)

    @property
    def threads(self) -> int:
        """How many handlers and effects run in threads."""
        handlers = sum(run.busy is not None and not run.busy.done() for run in self._runs.values())
        return handlers + self._effects.threads

    def start(self, taken: Taken) -> None:
        """Run it."""
        key = hold_of(taken)
        if key in self._runs:
            # Handed over again while its first run is being given up: not held, so that the lease brings it back.
            if self._runs[key].answered:
                self._inbox.forget(key)
            return
        earlier = self._earlier(taken)
        if earlier is not None:
            self._wait_for(earlier, taken)
            return
        run = self._runs[key] = Run(taken, self._clock.monotonic_ms())
        run.task = self._tasks.start(self._run(run), f"run {taken.msg_id}")
        if run.task is None:
            self._runs.pop(key, None)
            self._inbox.forget(key)
        self._on_change()

    def _earlier(self, taken: Taken) -> Run | None:
        """A run of the same leg under another hand, whose handler has not ended."""
        same = (run for run in self._runs.values() if (run.taken.msg_id, run.taken.leg) == (taken.msg_id, taken.leg))
        return next(same, None)

    def _wait_for(self, earlier: Run, taken: Taken) -> None:
        """Hand it back for a while, burning no attempt: two runs of one message at once are worse than a late one.

        The ledger has ended the earlier run; a thread, or a handler that holds on to its cancellation, cannot be made to.
        """
        if earlier.claim():
            earlier.cancel()
        answer = retryable("agent.lost", "an earlier run of it has not ended here", {"reason": "busy"}, host=self._host)
        self._tasks.start(self._settle(taken, answer, EARLIER_WAIT_MS, None), f"wait {taken.msg_id}")

    def lost(self, hold: Hold) -> None:
        """The ledger has taken it away: cancelled by its sender, or given to somebody else. Its result would be refused."""
        self._inbox.forget(hold)
        run = self._runs.get(hold)
        if run is not None and run.claim():
            self._log.info("run lost", msg_id=run.taken.msg_id, agent=self._inbox.agent_id)
            run.cancel()

    def hand_back(self, taken: Taken, run: Run | None = None) -> None:
        """Give it back at once, burning no attempt: another instance goes on with it."""
        if run is not None and not run.claim():
            return
        answer = retryable("agent.lost", "the agent is shutting down", {"reason": "shutdown"}, host=self._host)
        self._tasks.start(self._settle(taken, answer, 0, run), f"hand back {taken.msg_id}")
        if run is not None:
            run.cancel()

    def hand_back_all(self) -> None:
        """Cancel every handler that still runs, and give its message back."""
        for run in list(self._runs.values()):
            self.hand_back(run.taken, run)

    async def wait_empty(self, ms: int) -> bool:
        """Wait until nothing runs, every effect is over and every answer is written, at most `ms`. True: so it is."""
        over = False

        def end() -> None:
            nonlocal over
            over = True
            self._stir.set()

        cancel = self._clock.call_later(ms, end)
        try:
            while self._busy and not over:
                self._stir.clear()
                await self._stir.wait()
        finally:
            cancel()
        return not self._busy

    @property
    def _busy(self) -> bool:
        return bool(self._runs or self._settling or self._effects)

    async def close(self) -> None:
        """Cut off whatever is left, without an answer."""
        for run in self._runs.values():
            run.answered = run.given_up = True
        await self._tasks.close()
        await self._effects.close()
        self._runs.clear()

    # ------------------------------------------------------------ one run

    async def _run(self, run: Run) -> None:
        taken = run.taken
        try:
            outcome = await self._answer(run)
            if run.claim():
                run.close()
                if isinstance(outcome, Parked):
                    run.give_up_children()
                    await self._park(run, outcome)
                else:
                    # Else each retry would add its own to what still works for this run.
                    if outcome[0].status != "success":
                        run.give_up_children()
                    await self._settle(taken, *outcome, run)
        finally:
            run.close()
            if not run.answered:
                self._inbox.forget(hold_of(taken))
            if run.busy is not None and not run.busy.done():
                run.busy.add_done_callback(lambda _: self._free(taken))
            else:
                self._free(taken)

    def _free(self, taken: Taken) -> None:
        self._runs.pop(hold_of(taken), None)
        self._stir.set()
        self._on_change()

    async def _answer(self, run: Run) -> tuple[Answer, int] | Parked:
        taken, host = run.taken, self._host
        if not taken.envelope:
            self._trail.reached("agent.received", run)
            return retryable("backend.unavailable", "the bytes of the message are lost", host=host), -1
        try:  # a router has judged its size by its own settings
            envelope = run.envelope = decode(taken.envelope, max_bytes=len(taken.envelope))
        except EnvelopeError as error:
            self._trail.reached("agent.received", run)
            return failed(error.code, error.message, error.details, host=host), -1
        queued_ms = taken.now_ms - ids.stream_id(taken.hand)[0]
        self._tally.queue.observe(queued_ms / 1000, taken.msg_id, envelope.traces.traceparent)
        self._trail.reached("agent.received", run)
        read = await self._reading.read(envelope)
        if isinstance(read, Answer):
            return read, -1
        handler, body = read
        own_ms = handler.max_process_ms or self._declared.max_process_ms
        if own_ms is not None:
            run.processing_ms = min(own_ms, taken.processing_ms)
        self._arm(run)
        try:
            value, problem = await self._called(run, handler, body, envelope)
        except asyncio.CancelledError as cancelled:
            task = asyncio.current_task()
            if run.answered or (task is not None and task.cancelling()):
                raise
            return raised(cancelled, host=host)  # the handler has cancelled itself
        asked = parked_by(problem)
        if asked is not None:
            return asked
        if problem is not None:
            if not run.answered and not isinstance(problem, Retry | Reject):
                log.warning(
                    "handler failed",
                    extra={"msg_id": taken.msg_id, "handler": repr(handler.function)},
                    exc_info=await self._trail.tellable(problem, envelope),
                )
            return raised(problem, host=host, now_ms=self._clock.wall_ms())
        cost = handler.cost_of(envelope, self._declared)
        unfit = await self._reading.judged(handler, value, cost)
        return unfit or succeeded(value, host=host, kind=handler.output_kind, cost=cost), -1

    async def _called(
        self, run: Run, handler: Handler, body: Any, envelope: Envelope
    ) -> tuple[Any, BaseException | None]:
        """What the handler returns or raises. In a task of its own: one that cancels its task must end the handler, not its answer."""
        context = self._context(run, envelope)

        async def call() -> tuple[Any, BaseException | None]:
            try:
                enter_run(envelope, run.taken, self._inbox.agent_id)
                return await handler.call(body, context), None
            except asyncio.CancelledError:
                raise
            except BaseException as error:  # noqa: BLE001 - the user's handler: SystemExit too must become an answer
                return None, error

        task = self._tasks.start(call(), f"handler {run.taken.msg_id}")
        if task is None:
            raise asyncio.CancelledError
        return await task

    def _context(self, run: Run, envelope: Envelope) -> Context:
        def hold(future: asyncio.Future[Any]) -> None:
            run.busy = future

        run.context = Context(
            self._origin,
            envelope,
            run.taken,
            agent_id=self._inbox.agent_id,
            remaining_ms=lambda: max(run.total_at_ms - self._clock.monotonic_ms(), 0),
            alive=lambda notice: self._alive(run, notice),
            is_cancelled=lambda: run.given_up,
            hold_until=hold,
            once=lambda name, function, args: self._once(run, name, function, args),
        )
        return run.context

    def _once(self, run: Run, name: str, function: Callable[..., Any], args: tuple[Any, ...]) -> Awaitable[Any]:
        run.guards[guard_name(run.taken.leg, name)] = None
        return self._effects.once(
            run.taken,
            name,
            function,
            args,
            on_lost=lambda: self.lost(hold_of(run.taken)),
            tellable=lambda error: self._trail.tellable(error, run.envelope),
        )

    async def _park(self, run: Run, asked: Parked) -> None:
        """Give the message up until it is answered. Its guards are named, since they must outlive the question."""
        taken = run.taken
        self._settling += 1
        try:
            parking = Parking(
                taken.msg_id,
                taken.leg,
                taken.hand,
                asked.prompt,
                self._inbox.instance_id,
                asked.state,
                asked.open_ms,
                tuple(run.guards),
            )
            verdict = await self._inbox.park(taken, parking)
            if verdict != "done":
                self._log.info("question not taken", msg_id=taken.msg_id, verdict=verdict)
            self._trail.reached("agent.completed", run, "input_required" if verdict == "done" else verdict)
        finally:
            self._settling -= 1
            self._stir.set()

    async def _settle(self, taken: Taken, answer: Answer, wait_ms: int, run: Run | None) -> None:
        self._settling += 1
        try:
            if run is not None:
                self._trail.reached("agent.responding", run, answer.code)
                await self._count(run, answer)
            verdict = await self._inbox.settle(taken, answer, wait_ms=wait_ms)
            await self._settled(taken, answer, wait_ms, run, verdict)
        finally:
            self._settling -= 1
            self._stir.set()

    async def _count(self, run: Run, answer: Answer) -> None:
        envelope, taken = run.envelope, run.taken
        if envelope is not None:
            name = (taken.msg_id, taken.leg, envelope.round, taken.attempt, taken.hand)
            await spend(self._backend, Spender(envelope.conversation, *name, envelope), used_by(answer), self._log)

    async def _settled(
        self, taken: Taken, answer: Answer, wait_ms: int, run: Run | None, verdict: SettleVerdict
    ) -> None:
        if verdict != "done":
            self._log.info("answer not taken", msg_id=taken.msg_id, verdict=verdict, code=answer.code)
        if run is None:
            return
        if wait_ms != 0:  # else it was handed back, which says nothing of how well it works
            self._measure(run, answer)
        await self._trail.settled(run, answer, verdict)

    def _measure(self, run: Run, answer: Answer) -> None:
        took_ms = self._clock.monotonic_ms() - run.started_at_ms
        self._outcomes.append(answer.status != "retryable")
        self.mean_ms = took_ms if self.mean_ms is None else self.mean_ms + NEWEST_SHARE * (took_ms - self.mean_ms)

    # ------------------------------------------------------------ its moments

    def _arm(self, run: Run) -> None:
        now = self._clock.monotonic_ms()
        run.timers = [
            self._clock.call_later(run.processing_ms, lambda: self._check(run)),
            self._clock.call_later(
                run.total_at_ms - now, lambda: self._overdue(run, "timeout.total", "the caller's total")
            ),
        ]

    def _check(self, run: Run) -> None:
        left_ms = run.alive_at_ms + run.processing_ms - self._clock.monotonic_ms()
        if left_ms <= 0:
            self._overdue(run, "timeout.processing", f"no sign of life for {run.processing_ms} ms")
        elif not run.answered:
            run.timers[0] = self._clock.call_later(left_ms, lambda: self._check(run))

    def _overdue(self, run: Run, code: str, what: str) -> None:
        if run.claim():
            where = {"state": LegState.RUNNING.value}
            answer = retryable(code, f"the handler was cancelled: {what}", where, host=self._host)
            self._tasks.start(self._settle(run.taken, answer, -1, run), f"overdue {run.taken.msg_id}")
            run.cancel()

    async def _alive(self, run: Run, notice: bytes | None) -> None:
        taken = run.taken
        run.alive_at_ms = self._clock.monotonic_ms()
        if not await self._backend.progress(taken.partition, taken.msg_id, taken.leg, taken.hand, notice):
            self.lost(hold_of(taken))
