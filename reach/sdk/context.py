"""What a handler is given beside the body."""

import asyncio
import logging
import weakref
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar, overload

import msgspec

from reach.backend.steps import Taken
from reach.envelope.message import Envelope, Source
from reach.envelope.records import MAX_BYTES
from reach.sdk.bodies import BodyError, encode_body
from reach.sdk.durations import Duration
from reach.sdk.effects import is_in_effect
from reach.sdk.options import Parent
from reach.sdk.outcome import Reject
from reach.sdk.pending import Pending
from reach.sdk.questions import Questions
from reach.sdk.sending import Origin, Sending
from reach.tracing.naming import run_span
from reach.tracing.propagation import TraceContext, make_traceparent, parse_traceparent, trace_of

T = TypeVar("T")

_log = logging.getLogger("reach.handler")


class Context(Sending):
    """The message at hand, and what a handler may do.

    Sending from here continues the conversation: correlation, path, trace, deadline, budget.

    Attributes:
        msg_id: The message's id: the same over all its attempts, so effects can be recognised by it.
        key: The caller's own id of this work; msg_id where the caller gave none.
        attempt: The number of this run, from 1.
        deadline: When the caller's patience ends: Unix seconds by the clock of Redis.
        source: Who sent it.
        correlation_id: The conversation.
        headers: As the sender gave them.
        log: A logger that says msg_id, attempt and correlation_id with every line.
    """

    def __init__(
        self,
        origin: Origin,
        envelope: Envelope,
        taken: Taken,
        *,
        agent_id: str,
        remaining_ms: Callable[[], int],
        alive: Callable[[bytes | None], Awaitable[None]],
        is_cancelled: Callable[[], bool],
        hold_until: Callable[[asyncio.Future[Any]], None],
        once: Callable[[str, Callable[..., Any], tuple[Any, ...]], Awaitable[Any]],
    ) -> None:
        """Made by the agent for each run."""
        self._origin = origin
        self._envelope = envelope
        self._taken = taken
        self._agent_id = agent_id
        self._remaining_ms = remaining_ms
        self._alive = alive
        self._is_cancelled = is_cancelled
        self.hold_until = hold_until
        self._once = once
        self._children: weakref.WeakSet[Pending] = weakref.WeakSet()
        self._questions = Questions(taken.answers, agent_id)
        self.msg_id: str = envelope.msg_id
        self.key: str = envelope.task
        self.attempt: int = taken.attempt
        self.deadline: float = taken.total_at_ms / 1000
        self.source: Source = envelope.source
        self.correlation_id: str = envelope.conversation
        self.headers: dict[str, str] = dict(envelope.headers)
        self.log = logging.LoggerAdapter(
            _log, {"msg_id": self.msg_id, "attempt": self.attempt, "correlation_id": self.correlation_id}
        )

    @property
    def remaining(self) -> float:
        """Seconds until the deadline, by the clock of this process."""
        return self._remaining_ms() / 1000

    @property
    def cancelled(self) -> bool:
        """Whether this run's result is no longer wanted: cancelled, lost, overdue. For handlers in a thread, which nothing can stop."""
        return self._is_cancelled()

    async def progress(self, data: Any = None) -> None:
        """Tell the caller how it goes on, which is also a sign of life: the processing time counts from now.

        Raises:
            BodyError: `data` cannot be written as JSON, or is over 1 MiB as such.
            BackendError: It could not be told; the run goes on.
        """
        body = {"data": encode_body(data)}
        notice = {"notice": "progress", "msg_id": self.msg_id, "leg": self._taken.leg, "attempt": self.attempt, **body}
        written = msgspec.json.encode(notice)
        if len(written) > MAX_BYTES:
            raise BodyError(f"a notice of {len(written)} bytes, at most {MAX_BYTES}", bytes=len(written))
        await self._alive(written)

    async def alive(self) -> None:
        """A sign of life: the processing time counts from now.

        Raises:
            BackendError: It could not be told; the run goes on.
        """
        await self._alive(None)

    async def once(self, name: str, function: Callable[..., Any], *args: Any) -> Any:
        """Make an effect that must not be made again when this message comes again: book, charge, send a mail.

        The first run that asks calls `function(*args)` (a coroutine function, or a plain one in a thread) and keeps what it returns
        beside the message; every later run of the message, in any instance, is given that and calls nothing. A run that comes while
        another one's effect is under way waits for it. An effect that has begun goes on to its end although its run is cancelled or
        overdue, so that the next run knows what came of it. What `function` raises comes out of here and leaves the guard free.

        The result is kept as long as the record of the message and ten minutes more. A run that comes later, of a dead letter that was
        requeued the next day, makes the effect again.

        Only an `async def` handler can call it: in a plain `def` nothing awaits it.

        It cannot promise that the effect happens only once: where a process dies, is stopped before the effect is over (it has the grace
        of the stop), or is out of Redis's reach for 15 s, between the effect and its keeping, the next run makes it again. So give the
        other side a key of yours as well where it takes one (`ctx.key`), and let `function` do one thing. After an error, too, only
        `function` knows whether something has happened.

        Args:
            name: Of this effect, 1 to 64 of A-Z a-z 0-9 . _ -; unique within the message. In a broadcast each agent has its own.
            function: What to call.
            *args: What to call it with.

        Returns:
            The result as its JSON gives it back, read as the return annotation of `function`: the same for the first and all later runs.

        Raises:
            ValueError: The name breaks the grammar.
            Reject: The effect was made, and its result cannot be kept: it is no JSON, or has over 64 KiB.
            BodyError: What an earlier run has kept does not fit the return annotation of now.
            BackendError: Redis cannot be asked; nothing was called.
            asyncio.CancelledError: The message has gone to another run.
        """
        return await self._once(name, function, args)

    @property
    def state(self) -> Any:
        """What an earlier run of this message has saved with `input_required(..., state=...)`, as plain JSON; None in a first run."""
        return self._questions.state

    @overload
    def input_required(
        self, prompt: object, *, state: object = None, timeout: Duration | None = None
    ) -> Awaitable[Any]: ...
    @overload
    def input_required(
        self, prompt: object, *, returns: type[T], state: object = None, timeout: Duration | None = None
    ) -> Awaitable[T]: ...
    def input_required(
        self, prompt: object, *, returns: Any = Any, state: object = None, timeout: Duration | None = None
    ) -> Awaitable[Any]:
        """Ask whoever sent this message, and go on with the answer: `ok = await ctx.input_required({"refund": 500})`.

        The first time this ends the run: the message is parked, the slot is free, nothing waits here, the caller's total stands still, and
        the caller is told. When the answer has come, minutes or days later, the handler is called **from its start**, in this instance or
        another one, with the same body and the same attempt, and this call gives the answer. So what the handler does before it asks is
        done again after each answer: effects belong under `ctx.once`, and what was worked out may be saved as `state`.

        Several questions may follow one another: the n-th call is given the n-th answer, also in a retry. Each has to be the same question
        as in the run before. The message comes back to the agent that asked while that can take it; another agent is given the answers to
        questions that it asks as well, and what else it asks is asked anew.

        What ends the run is a private BaseException, raised from here: `except Exception` does not stop it, `finally` and `async with` run.
        A handler that swallows it has asked nothing, and is answered by what it returns.

        Only an `async def` handler can ask: in a plain `def` nothing awaits it.

        Args:
            prompt: What is asked: anything that JSON can say, at most 64 KiB.
            returns: What the answer is read as.
            state: Kept beside the message, at most 64 KiB of JSON: `ctx.state` of the later runs. None keeps what was saved before.
            timeout: How long the question stays open, one day where nothing is said, at most seven. Then the message ends with
                `timeout.total`, `details["state"]` "parked".

        Raises:
            Reject: It cannot be asked here (`not_async`), was another question when it was answered (`another_question`), was answered with
                something that does not fit `returns` (`answer_unfit`), or there are over 100 questions or 256 KiB of answers
                (`too_many_questions`). Let it through: the same again cannot help.
            BodyError: The prompt or the state cannot be written as JSON, or is too large.
            ValueError: The timeout is no duration, or over seven days.
        """
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            text = "input_required needs an `async def` handler: in a plain `def` nothing awaits the answer"
            raise Reject("not_async", text) from None
        return self._ask(prompt, returns, state, timeout)

    async def _ask(self, prompt: object, kind: Any, state: object, timeout: Duration | None) -> Any:
        return self._questions.ask(prompt, kind, state, timeout)

    def _opened(self, pending: Pending) -> None:
        # An effect goes on to its end although its run does not, and with it what it has asked for.
        if pending.owned and not is_in_effect():
            self._children.add(pending)

    def give_up(self) -> None:
        """The run is over without a success: what it asked for and still waits for is cancelled. What is asked for after this is not."""
        for pending in tuple(self._children):
            self._origin.exchange.giving_up.begin(pending)

    def _parent(self) -> Parent:
        envelope, taken = self._envelope, self._taken
        traces = envelope.traces
        trace = trace_of(envelope.msg_id, traces.traceparent)
        span = run_span(envelope.msg_id, taken.leg, self._agent_id, taken.hand, "agent.received")
        sent = parse_traceparent(traces.traceparent, traces.tracestate)
        return Parent(
            msg_id=envelope.msg_id,
            correlation_id=envelope.conversation,
            previous_hops=(*traces.previous_hops, self._agent_id),
            traceparent=make_traceparent(TraceContext(trace.trace_id, span, trace.flags)),
            tracestate=(sent.state or None) if sent is not None else None,
            remaining_ms=self._remaining_ms(),
            budget=envelope.budget,
        )
