"""How an instance of an agent is, as it says itself, and the user's own check of it."""

import inspect
from collections.abc import Awaitable, Callable

import msgspec

from reach.log import event_log
from reach.sdk.outcome import text_of
from reach.service import Report

log = event_log("reach.agent")

READY_EVERY_MS = 5_000
NOT_READY_EVERY_MS = 1_000

ReadyCheck = Callable[[], Awaitable[bool | str] | bool | str]


class Condition(msgspec.Struct):
    """How an instance is, as it says itself. Read by the pulse, from its thread."""

    draining: bool = False
    not_ready: str | None = None
    busy: bool = False
    context_left: int | None = None


class Readiness:
    """The service that asks the agent whether it is ready: every 5 s, every second while it is not."""

    name = "ready"

    def __init__(self, check: ReadyCheck, agent_id: str, condition: Condition, on_change: Callable[[], None]) -> None:
        """`on_change` is told whenever what is written into `condition` is something else than before."""
        self._check = check
        self._agent_id = agent_id
        self._condition = condition
        self._on_change = on_change

    @property
    def interval_ms(self) -> int:
        """The pace."""
        return READY_EVERY_MS if self._condition.not_ready is None else NOT_READY_EVERY_MS

    async def run_once(self) -> Report:
        """Ask once."""
        reason = await self._ask()
        if reason != self._condition.not_ready:
            log.info("readiness", extra={"agent": self._agent_id, "not_ready": reason})
            self._condition.not_ready = reason
            self._on_change()
        return {}

    async def _ask(self) -> str | None:
        try:
            answer = self._check()
            if inspect.isawaitable(answer):
                answer = await answer
        except Exception as error:  # noqa: BLE001 - the user's own check
            return text_of(error)[:200]
        if answer is True:
            return None
        return answer if isinstance(answer, str) else "not ready"
