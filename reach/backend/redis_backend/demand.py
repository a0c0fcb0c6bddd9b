"""The side of demand: counts that routers share."""

from collections.abc import Sequence

from reach.backend.bounds import DEMAND_TTL_MS
from reach.backend.keys import LANES
from reach.backend.redis_backend.registry import RegistrySide
from reach.backend.redis_backend.streams import pairs_of, text_of
from reach.errors import BackendError

#: so many lengths are asked for in one go
LENGTHS_PAGE = 1_000


class DemandSide(RegistrySide):
    """What is asked of capabilities; see `reach.backend.demand_port` for what each method promises."""

    async def tell_demand(self, name: str, told: bytes, forget: Sequence[str] = ()) -> None:
        key = self._keys.demand()
        commands: list[Sequence[str | int | bytes]] = [("HSET", key, name, told), ("PEXPIRE", key, DEMAND_TTL_MS)]
        if forget:
            commands.append(("HDEL", key, *forget))
        for reply in await self._link.batch(commands):
            if isinstance(reply, BackendError):
                await self._heal_key(reply, key, "hash")  # the next one is told in a few seconds
                return

    async def read_demand(self) -> dict[str, bytes]:
        key = self._keys.demand()
        flat = await self._healing(key, "hash", "HGETALL", key)
        return {text_of(name): told for name, told in pairs_of(flat or []).items()}

    async def lying(self, agents: Sequence[str]) -> list[int]:
        counts = [0] * len(agents)
        places = [(at, p, lane) for p in range(self.partitions) for at in range(len(agents)) for lane in LANES]
        for start in range(0, len(places), LENGTHS_PAGE):
            page = places[start : start + LENGTHS_PAGE]
            replies = await self._link.batch([("XLEN", self._keys.inbox(p, agents[at], lane)) for at, p, lane in page])
            for (at, _, _), reply in zip(page, replies, strict=True):
                counts[at] += reply if isinstance(reply, int) else 0  # of a wrong type: nothing lies there
        return counts
