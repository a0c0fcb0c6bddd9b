"""The side of demand: counts that routers share."""

from collections.abc import Sequence

from reach.backend.bounds import DEMAND_TTL_MS
from reach.backend.keys import LANES
from reach.backend.memory_backend.registry import RegistrySide


class DemandSide(RegistrySide):
    """What is asked of capabilities; see `reach.backend.demand_port` for what each method promises."""

    async def tell_demand(self, name: str, told: bytes, forget: Sequence[str] = ()) -> None:
        def step() -> None:
            key = self._keys.demand()
            known = self._hash(key)
            known[name] = told
            for other in forget:
                known.pop(other, None)
            self._store.expire_at(key, self._store.now_ms() + DEMAND_TTL_MS)
            self._store.drop_empty(key)

        await self._step("tell_demand", step)

    async def read_demand(self) -> dict[str, bytes]:
        return await self._step("read_demand", lambda: dict(self._peek_hash(self._keys.demand())))

    async def lying(self, agents: Sequence[str]) -> list[int]:
        def step() -> list[int]:
            places = [self._partition(number) for number in range(self.partitions)]
            streams = ([part.inbox(agent, lane) for part in places for lane in LANES] for agent in agents)
            return [sum(len(stream) for stream in found if stream is not None) for found in streams]

        return await self._step("lying", step)
