"""How an instance of an agent is, as it says itself, and the user's own check of it."""

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from typing import Any, cast

import msgspec

from reach.clock import Clock
from reach.log import event_log
from reach.sdk.outcome import text_of
from reach.sdk.threads import in_thread, is_async
from reach.service import Report

log = event_log("reach.agent")

READY_EVERY_MS = 5_000
NOT_READY_EVERY_MS = 1_000
#: A check that has not answered by then is not ready; one in the loop is cancelled, one in a thread is waited for before it is asked again.
CHECK_MS = 10_000
TOO_SLOW = f"the check has not answered within {CHECK_MS // 1000} s"
MAX_REASON = 200

ReadyCheck = Callable[[], Awaitable[bool | str] | bool | str]


class Condition(msgspec.Struct):
    """How an instance is, as it says itself. Read by the pulse, from its thread."""

    draining: bool = False
    not_ready: str | None = None
    busy: bool = False
    context_left: int | None = None


class Readiness:
    """The service that asks the agent whether it is ready: every 5 s, every second while it is not. One question at a time."""

    name = "ready"

    def __init__(
        self, check: ReadyCheck, agent_id: str, condition: Condition, on_change: Callable[[], None], clock: Clock
    ) -> None:
        """`on_change` is told whenever what is written into `condition` is something else than before."""
        self._check = check
        self._agent_id = agent_id
        self._condition = condition
        self._on_change = on_change
        self._clock = clock
        self._thread: asyncio.Future[Any] | None = None

    @property
    def interval_ms(self) -> int:
        """The pace."""
        return READY_EVERY_MS if self._condition.not_ready is None else NOT_READY_EVERY_MS

    @property
    def in_thread(self) -> bool:
        """Whether a plain function is being asked, or was given up and has not ended yet."""
        return self._thread is not None and not self._thread.done()

    async def run_once(self) -> Report:
        """Ask once."""
        if not self.in_thread:  # who was given up and still runs may be asked again when it has ended
            self._tell(await self._ask())
        return {}

    def _tell(self, reason: str | None) -> None:
        if reason != self._condition.not_ready:
            log.info("readiness", extra={"agent": self._agent_id, "not_ready": reason})
            self._condition.not_ready = reason
            self._on_change()

    async def _ask(self) -> str | None:
        loop, scope = asyncio.get_running_loop(), asyncio.timeout(None)
        try:
            async with scope:
                cancel = self._clock.call_later(CHECK_MS, lambda: scope.reschedule(loop.time()))
                try:
                    answer = await self._called()
                finally:
                    cancel()
        except TimeoutError as error:
            return TOO_SLOW if scope.expired() else text_of(error)[:MAX_REASON]
        except (Exception, SystemExit) as error:  # noqa: BLE001 - the user's own check
            return text_of(error)[:MAX_REASON]
        if answer is True:
            return None
        return answer[:MAX_REASON] if isinstance(answer, str) and answer else "not ready"

    async def _called(self) -> Any:
        if is_async(self._check):
            return await cast("Awaitable[Any]", self._check())
        answer = await in_thread(self._check, self._hold)
        return await answer if inspect.isawaitable(answer) else answer

    def _hold(self, ended: asyncio.Future[Any]) -> None:
        self._thread = ended
