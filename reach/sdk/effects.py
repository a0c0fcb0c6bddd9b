"""`ctx.once`: an effect of a handler that must not be made again when the message comes again.

The guard lies in Redis beside the message. Who has it makes the effect and writes down what came of it; every later run is given that.
"""

import asyncio
import contextvars
import inspect
import itertools
import re
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple, get_type_hints

import msgspec

from reach.backend.port import Backend
from reach.backend.steps import Guard, Taken
from reach.clock import Clock
from reach.errors import BackendError
from reach.log import PacedLog, event_log
from reach.sdk.bodies import BodyError, check_readable, decode_body, encode_body
from reach.sdk.outcome import Reject
from reach.sdk.threads import in_thread, is_async
from reach.service import Tasks

log = event_log("reach.agent")

LEASE_MS = 15_000
RENEW_MS = 5_000
LOOK_MS = 500  # how often a run looks whether another one's effect is over
MAX_RESULT_BYTES = 64 * 1024
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


_IN_EFFECT: contextvars.ContextVar[bool] = contextvars.ContextVar("in_effect", default=False)


def is_in_effect() -> bool:
    """Whether what runs here belongs to a guarded effect, which goes on although its run is cancelled."""
    return _IN_EFFECT.get()


class _Kept(msgspec.Struct, array_like=True):
    """What is stored: the result, or why it could not be. Then the effect is not made again either."""

    result: msgspec.Raw = msgspec.Raw(b"null")
    problem: str = ""


class _Guard(NamedTuple):
    """One guard, as one call asks for it.

    Two calls of one run are two owners: else both would have it. So are two runs of one hand, which a restart that has lost the last second
    can bring.
    """

    backend: Backend
    taken: Taken
    name: str
    owner: str

    async def take(self) -> Guard:
        taken = self.taken
        return await self.backend.once_take(
            taken.partition, taken.msg_id, taken.leg, taken.hand, self.name, self.owner, LEASE_MS
        )

    async def end(self, stored: bytes) -> bool:
        return await self.backend.once_end(self.taken.partition, self.taken.msg_id, self.name, self.owner, stored)

    @property
    def told(self) -> dict[str, str]:
        """For the log."""
        return {"guard": self.name, "msg_id": self.taken.msg_id}


def guard_name(leg: int, name: str) -> str:
    """How its guard is called: every agent that got a message of scope all has effects of its own."""
    return f"{leg}:{name}" if leg else name


class Effects:
    """The guarded effects of one instance. An effect that has begun is seen through to its end, also when its run is cancelled."""

    def __init__(self, backend: Backend, clock: Clock, instance_id: str, on_end: Callable[[], None]) -> None:
        self._backend = backend
        self._clock = clock
        self._instance_id = instance_id
        self._calls = itertools.count(1)
        self._on_end = on_end
        self._log = PacedLog(log, clock)
        self._tasks = Tasks()
        self._keepers = Tasks()
        self._threads: set[asyncio.Future[Any]] = set()

    def __len__(self) -> int:
        """How many are under way."""
        return len(self._tasks)

    @property
    def threads(self) -> int:
        """How many are under way in threads."""
        return len(self._threads)

    async def close(self) -> None:
        """Cut off what is under way, as a kill would: its guard stays taken until its lease is over."""
        await self._tasks.close()
        await self._keepers.close()

    async def once(
        self,
        taken: Taken,
        name: str,
        function: Callable[..., Any],
        args: tuple[Any, ...],
        *,
        on_lost: Callable[[], None],
        tellable: Callable[[BaseException], Awaitable[BaseException]],
    ) -> Any:
        """See `Context.once`. `on_lost`: the ledger has given the message to somebody else. `tellable`: what of an error may be logged."""
        if not _NAME.fullmatch(name):
            raise ValueError(f"once: the name {name!r} is not 1 to 64 of A-Z a-z 0-9 . _ -")
        kind = _kind_of(function)
        own_name = guard_name(taken.leg, name)
        owner = f"{self._instance_id}/{taken.lane}:{taken.hand}/{next(self._calls)}"
        guard = _Guard(self._backend, taken, own_name, owner)
        while True:
            answer = await self._ask(guard)
            if answer.state == "stale":
                on_lost()
                raise asyncio.CancelledError("the message is in other hands")
            if answer.state == "done":
                return _read(answer.value, kind)
            if answer.state == "mine":
                break
            await self._clock.sleep(min(answer.wait_ms, LOOK_MS))
        effect = self._tasks.start(self._make(guard, function, args), f"effect {name} of {taken.msg_id}")
        if effect is None:
            raise asyncio.CancelledError("the agent has stopped")
        effect.add_done_callback(lambda _: self._on_end())
        # A run that is cancelled waits no longer. Its effect goes on: a guess whether it happened is what the guard is there to spare us.
        try:
            stored, error = await asyncio.shield(effect)
        except asyncio.CancelledError:
            effect.add_done_callback(
                lambda ended: self._keepers.start(_tell(ended, guard, tellable), "tell of an effect")
            )
            raise
        if error is not None:
            raise error
        return _read(stored, kind)

    async def _ask(self, guard: _Guard) -> Guard:
        """Ask, and once more after a second: a reply that was swallowed may have given us the guard, and the next run would wait for it."""
        try:
            return await guard.take()
        except BackendError as error:
            if not error.retryable:
                raise
        await self._clock.sleep(1_000)
        return await guard.take()

    async def _make(
        self, guard: _Guard, function: Callable[..., Any], args: tuple[Any, ...]
    ) -> tuple[bytes, BaseException | None]:
        renewing = asyncio.Lock()
        keeping = self._keepers.start(self._keep(guard, renewing), "keep a guard")
        stored, problem = b"", None
        try:
            stored = _written(await self._call(function, args))
        except BaseException as error:  # the user's function: what it raises goes to the handler
            task = asyncio.current_task()
            if isinstance(error, asyncio.CancelledError) and task is not None and task.cancelling():
                raise  # cut off in the middle: whether it happened nobody knows, and the lease must end by itself
            problem = error
        finally:
            # Not while a renewal is under way: after the end it would set a guard that was freed anew.
            async with renewing:
                if keeping is not None:
                    keeping.cancel()
        await self._end(guard, stored)
        return stored, problem

    async def _call(self, function: Callable[..., Any], args: tuple[Any, ...]) -> Any:
        _IN_EFFECT.set(True)  # for this task, which is the effect's own, and what it starts
        if is_async(function):
            return await function(*args)
        value = await in_thread(lambda: function(*args), self._hold)
        return await value if inspect.isawaitable(value) else value

    def _hold(self, thread: asyncio.Future[Any]) -> None:
        self._threads.add(thread)
        thread.add_done_callback(self._threads.discard)

    async def _keep(self, guard: _Guard, renewing: asyncio.Lock) -> None:
        while True:
            await self._clock.sleep(RENEW_MS)
            async with renewing:
                try:
                    await guard.take()
                except BackendError as error:
                    self._log.info("guard not renewed", of=guard, **guard.told, error=error.code)

    async def _end(self, guard: _Guard, stored: bytes) -> None:
        """Write it down, however long Redis is away: the effect has happened, and only here is it known."""
        pause_ms = 100
        while True:
            try:
                ended = await guard.end(stored)
            except BackendError as error:
                if not error.retryable:
                    log.exception("effect not written down", extra=guard.told)
                    return
                self._log.warning("effect not written down yet", of=guard.owner, **guard.told, error=error.code)
                await self._clock.sleep(pause_ms)
                pause_ms = min(2 * pause_ms, 2_000)
                continue
            if not ended:
                log.warning("effect made twice", extra=guard.told)
            return


async def _tell(
    effect: asyncio.Task[tuple[bytes, BaseException | None]],
    guard: _Guard,
    tellable: Callable[[BaseException], Awaitable[BaseException]],
) -> None:
    """What it raised, when its run has gone and nobody else would hear of it."""
    error = None if effect.cancelled() or effect.exception() is not None else effect.result()[1]
    if error is not None:
        log.warning("effect failed", extra=guard.told, exc_info=await tellable(error))


def _kind_of(function: Callable[..., Any]) -> Any:
    """What the function says that it returns; anything where it says nothing, or what JSON can never be read as."""
    try:
        kind = get_type_hints(function).get("return", Any)
        check_readable(kind)
    except (NameError, TypeError):
        return Any
    return kind


def _written(value: object) -> bytes:
    try:
        result = encode_body(value)
    except BodyError as error:
        return msgspec.json.encode(_Kept(problem=error.message))
    size = len(bytes(result))
    if size > MAX_RESULT_BYTES:
        return msgspec.json.encode(_Kept(problem=f"has {size} bytes, at most {MAX_RESULT_BYTES}"))
    return msgspec.json.encode(_Kept(result))


def _read(stored: bytes, kind: Any) -> Any:
    kept = msgspec.json.decode(stored, type=_Kept)
    if kept.problem:
        raise Reject("result_not_kept", f"the effect was made, but its result {kept.problem}")
    return decode_body(bytes(kept.result), kind)
