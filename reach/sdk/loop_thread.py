"""An event loop in a thread of its own, with one thing that lives in it: for programs that have no loop."""

import asyncio
import concurrent.futures
import os
import threading
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from typing import Any, Generic, TypeVar

from reach.errors import BackendUnavailable, ConfigError
from reach.log import event_log

log = event_log("reach.client")

T = TypeVar("T")
R = TypeVar("R")

#: How long what lives there may take to close; then it is cut off, and has the second of these to let go.
CLOSE_S = 3.0
CUT_S = 2.0
_CLOSED = "this client is closed: connect a new one"


class LoopThread(Generic[T]):
    """Opens something in a loop of its own and runs calls there, from any thread, until `stop`. The loop's one owner is its thread.

    Attributes:
        value: What was opened.
    """

    def __init__(self, open_it: Callable[[], AbstractAsyncContextManager[T]], name: str) -> None:
        """Start the thread and wait until it is open.

        Raises:
            ConfigError: An event loop runs in this thread, which this would block.
            Exception: What opening raised; the thread has ended.
        """
        self._pid = os.getpid()
        self.check()
        self._open = open_it
        self._loop = asyncio.new_event_loop()
        self._asked = asyncio.Event()  # to stop
        self._main: asyncio.Task[Any] | None = None
        self._lock = threading.Lock()
        self._calls: set[concurrent.futures.Future[Any]] = set()
        self._stopping = False
        self._opened: concurrent.futures.Future[T] = concurrent.futures.Future()
        # A daemon: a program that ends without closing must end. Redis forgets the mailbox by itself.
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()
        try:
            self.value = self._opened.result()
        except BaseException:  # also Ctrl-C
            self.stop(close_s=0)
            raise

    @property
    def inherited(self) -> bool:
        """Whether this is the child of a fork: the thread and the connections are the parent's."""
        return os.getpid() != self._pid

    def check(self) -> None:
        """Whether a call may be made here.

        Raises:
            ConfigError: Never in a child that was forked, and never in a thread whose event loop it would block.
        """
        if self.inherited:
            text = "opened before a fork; the connections are the parent's: open another one in this process"
            raise ConfigError(text, code="config.forked", details={"opened_in": self._pid, "pid": os.getpid()})
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return
        text = (
            "an event loop runs in this thread and would stand still: use Reach with await, or call from another thread"
        )
        raise ConfigError(text, code="config.event_loop")

    def call(self, make: Callable[[], Awaitable[R]]) -> R:
        """Run it in the loop and wait for what it gives. An exception here, such as Ctrl-C, cancels it there.

        Raises:
            ConfigError: See `check`.
            BackendUnavailable: It is closed (`backend.closed`), or was meanwhile.
        """
        self.check()
        with self._lock:
            if self._stopping or not self._thread.is_alive():
                raise BackendUnavailable(_CLOSED, code="backend.closed", retryable=False)
            call = asyncio.run_coroutine_threadsafe(_awaited(make), self._loop)
            self._calls.add(call)
        call.add_done_callback(self._calls.discard)
        try:
            return call.result()
        except concurrent.futures.CancelledError as error:
            raise BackendUnavailable("the client was closed while this was under way") from error
        except BaseException:
            call.cancel()
            raise

    def stop(self, close_s: float = CLOSE_S) -> None:
        """Close what was opened and end the thread, in bounded time. Twice is once; in the child of a fork nothing happens."""
        if self.inherited:
            return
        self.check()
        with self._lock:
            self._stopping = True
        if not self._ended_within(close_s, self._asked.set) and not self._ended_within(CUT_S, self._cut):
            log.warning("the thread of a client goes on", extra={"name_of_thread": self._thread.name})

    def _ended_within(self, limit_s: float, ask: Callable[[], None]) -> bool:
        try:
            self._loop.call_soon_threadsafe(ask)
        except RuntimeError:  # the loop is closed: the thread has ended or is about to
            log.debug("closed before", extra={"name_of_thread": self._thread.name})
        self._thread.join(limit_s)
        return not self._thread.is_alive()

    def _cut(self) -> None:
        self._asked.set()
        if self._main is not None:
            self._main.cancel()

    # ---------------------------------------------------------------- in the thread
    def _run(self) -> None:
        try:
            with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
                runner.run(self._live())
        except BaseException as error:  # the end of a thread: nobody is above it
            if not self._opened.done():
                self._opened.set_exception(error)
            elif not isinstance(error, asyncio.CancelledError):
                log.exception("a client ended", exc_info=error)
        finally:
            self._opened.cancel()  # where stop came before the opening
            for call in tuple(self._calls):
                call.cancel()

    async def _live(self) -> None:
        self._main = asyncio.current_task()
        if self._asked.is_set():
            return
        try:
            async with AsyncExitStack() as stack:
                self._opened.set_result(await stack.enter_async_context(self._open()))
                await self._asked.wait()
        finally:  # also when the loop dies under us: nothing may be scheduled that would never run
            with self._lock:
                self._stopping = True


async def _awaited(make: Callable[[], Awaitable[R]]) -> R:
    return await make()
