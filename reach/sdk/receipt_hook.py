"""A function of the user's that hears of every receipt of one client. It runs beside everything else and can break nothing."""

import asyncio
import inspect
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any

from reach.envelope.receipt import ReceiptRecord
from reach.errors import ConfigError
from reach.log import PacedLog, event_log, hushed
from reach.sdk.receipts import Receipt, receipt_of
from reach.service import Tasks
from reach.tracing.hops import HopRecorder

log = event_log("reach.client")

OnReceipt = Callable[[Receipt[Any]], Awaitable[None] | None]
#: So many receipts wait for a hook that is slow; of more the oldest are left out, and that is told.
MAX_WAITING = 1_000
#: How long closing waits for the hook to be through with what it has not heard yet.
CLOSE_S = 2.0


class ReceiptHook:
    """Calls it with one receipt after another, in the order in which they came; a plain function in a thread. For one event loop."""

    def __init__(self, hook: OnReceipt, recorder: HopRecorder | None = None) -> None:
        """Raises ConfigError where it cannot be called. `recorder`: knows what may be logged of what it raises; without it, no text."""
        if not callable(hook):
            raise ConfigError(f"on_receipt={hook!r:.80}: a function is wanted that takes a receipt")
        self._hook, self._recorder = hook, recorder
        self._waiting: deque[ReceiptRecord] = deque()
        self._task: asyncio.Task[None] | None = None
        self._tasks = Tasks()
        self._log = PacedLog(log)
        self._closed = False
        self.left_out = 0  # over the whole life

    def hear(self, record: ReceiptRecord) -> None:
        """A receipt has come, or was made here. Never blocks."""
        if self._closed:
            return
        if len(self._waiting) >= MAX_WAITING:
            self._waiting.popleft()
            self.left_out += 1
            self._log.warning("receipts not heard", of="full", reason="on_receipt is too slow", count=self.left_out)
        self._waiting.append(record)
        if self._task is None or self._task.done():
            self._task = self._tasks.start(self._run(), "on_receipt")

    async def close(self) -> None:
        """Let it hear what waits, for at most 2 s. Twice is once."""
        self._closed = True
        if self._task is None:
            return
        _, pending = await asyncio.wait({self._task}, timeout=CLOSE_S)
        if pending:
            await self._tasks.close()
            self._log.warning(
                "receipts not heard", of="closed", reason="on_receipt is too slow", count=len(self._waiting)
            )

    async def _run(self) -> None:
        while self._waiting:
            record = self._waiting.popleft()
            try:
                await self._call(receipt_of(record))
            except asyncio.CancelledError:
                raise
            except BaseException as error:  # noqa: BLE001 - the user's: whatever it raises, receipts go on
                told = await self._recorder.tellable(error, None) if self._recorder is not None else hushed(error)
                self._log.warning("on_receipt failed", of=repr(error)[:100], msg_id=record.msg_id, exc_info=told)

    async def _call(self, receipt: Receipt[Any]) -> None:
        if inspect.iscoroutinefunction(self._hook):
            await self._hook(receipt)
            return
        answer = await asyncio.to_thread(self._hook, receipt)
        if inspect.isawaitable(answer):  # such as of a lambda, or of an object with an async __call__
            await answer
