"""The side of recorders: up to when each process has written its hop records."""

import re

from reach.backend.memory_backend.demand import DemandSide
from reach.backend.memory_backend.registry import AHEAD_MS, CHANGES_PAGE
from reach.errors import BackendError

_NAME = re.compile(r"[A-Za-z0-9._-]*/[A-Za-z0-9._-]+").fullmatch
MAX_NAME = 257


class RecordersSide(DemandSide):
    """Whose last records may be missing; see `reach.backend.recorders_port` for what each method promises."""

    async def tell_recorder(self, name: str, at_ms: int | None) -> None:
        def step() -> None:
            self._check(name)
            if at_ms is None:
                self._drop(name)
            else:
                self._zset(self._keys.recorders())[name] = max(min(at_ms, self._store.now_ms()), 0)

        await self._step("tell_recorder", step)

    async def silent_recorders(self, before_ms: int) -> list[tuple[str, int]]:
        def step() -> list[tuple[str, int]]:
            now_ms, words = self._store.now_ms(), self._peek_zset(self._keys.recorders())
            for name in [name for name, at_ms in words.items() if at_ms > now_ms + AHEAD_MS]:
                words[name] = now_ms
            late = sorted((at_ms, name) for name, at_ms in words.items() if at_ms < before_ms)
            return [(name, at_ms) for at_ms, name in late[:CHANGES_PAGE]]

        return await self._step("silent_recorders", step)

    async def forget_recorder(self, name: str, before_ms: int) -> bool:
        def step() -> bool:
            self._check(name)
            said_ms = self._peek_zset(self._keys.recorders()).get(name)
            if said_ms is not None and said_ms >= before_ms:
                return False
            self._drop(name)
            return True

        return await self._step("forget_recorder", step)

    def _drop(self, name: str) -> None:
        key = self._keys.recorders()
        self._peek_zset(key).pop(name, None)
        self._store.drop_empty(key)

    @staticmethod
    def _check(name: str) -> None:
        if len(name.encode()) > MAX_NAME or not _NAME(name):
            raise BackendError(f"REACH_BAD_FIELD {len(name.encode())} bytes are no node/worker")
