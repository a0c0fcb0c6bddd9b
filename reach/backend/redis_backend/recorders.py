"""The side of recorders: up to when each process has written its hop records."""

from reach.backend.redis_backend.demand import DemandSide
from reach.backend.redis_backend.streams import moment_of, pairs_of, text_of
from reach.backend.scripts import script


class RecordersSide(DemandSide):
    """Whose last records may be missing; see `reach.backend.recorders_port` for what each method promises."""

    async def tell_recorder(self, name: str, at_ms: int | None) -> None:
        at = "" if at_ms is None else at_ms
        await self._link.run(script("recorder"), self._keys.agents(), name, at, "")

    async def silent_recorders(self, before_ms: int) -> list[tuple[str, int]]:
        flat = await self._link.run(script("overdue"), self._keys.agents(), before_ms, "recorders")
        return [(text_of(name), moment_of(score)) for name, score in pairs_of(flat).items()]

    async def forget_recorder(self, name: str, before_ms: int) -> bool:
        return bool(await self._link.run(script("recorder"), self._keys.agents(), name, "", before_ms) == 1)
