"""The Redis backend: its life, and what it learns about the server when it is opened."""

from typing import Any

from reach import ids
from reach.backend.connection import Link
from reach.backend.keys import KeySpace
from reach.backend.redis_backend.agent import AgentSide
from reach.backend.redis_backend.conversations import ConversationSide
from reach.backend.redis_backend.depth import DepthSide
from reach.backend.redis_backend.records import RecordsSide
from reach.backend.redis_backend.router import RouterSide
from reach.backend.redis_backend.schemas import SchemaSide
from reach.backend.redis_backend.sender import SenderSide
from reach.backend.redis_backend.streams import LOST, code_of, facts_of, pairs_of, text_of
from reach.backend.scripts import script
from reach.clock import Clock
from reach.envelope.registration import MAX_PARTITIONS
from reach.errors import BackendDenied, BackendError, ConfigError, ScriptFailed

OLDEST = (7, 0)


class RedisBackend(SenderSide, RouterSide, AgentSide, ConversationSide, SchemaSide, DepthSide, RecordsSide):
    """The port on Redis >= 7.0 or Valkey >= 8. Made by `reach.backend.open_backend`; `open` it before use."""

    def __init__(self, url: str, *, env: str, clock: Clock | None = None) -> None:
        super().__init__(Link(url, clock=clock), KeySpace(env))
        self.env = env
        self.durability = "memory"

    async def open(self) -> None:
        info, fsync, replicas, partitions, bounds = await self._link.batch(
            [
                ["INFO"],
                ["CONFIG", "GET", "appendfsync"],
                ["CONFIG", "GET", "min-replicas-to-write"],
                ["HGET", self._keys.meta(), "partitions"],
                self._ask_bounds(),
            ]
        )
        facts = facts_of(_optional(info) or b"")
        _refuse(facts)
        self.durability = _durability(facts, _setting(fsync), _setting(replicas))
        self._eviction.judge(facts)
        self.partitions = await self._partitions(partitions)
        self._take_bounds(bounds)

    async def close(self) -> None:
        await self._link.close()

    async def now_ms(self) -> int:
        seconds, micros = await self._link.call("TIME")
        return int(seconds) * 1000 + int(micros) // 1000

    async def _partitions(self, reply: Any) -> int:
        if isinstance(reply, BackendError):
            if code_of(reply) not in LOST:
                raise reply
            await self._link.run(script("heal_key"), self._keys.meta(), "hash", "")
            return 1
        if reply is None:
            return 1
        number = ids.count_of(reply)
        if number is None or not 1 <= number <= MAX_PARTITIONS:
            raise ConfigError(f"partitions of env {self.env} is {reply!r}, not a number from 1 to {MAX_PARTITIONS}")
        return number


def _optional(reply: Any) -> Any:
    """A reply that a user with few rights may not get: then None. Any other error is raised."""
    if isinstance(reply, BackendDenied | ScriptFailed):
        return None
    if isinstance(reply, BackendError):
        raise reply
    return reply


def _setting(reply: Any) -> str:
    pair = pairs_of(_optional(reply) or [])
    return next((text_of(value) for value in pair.values()), "")


def _refuse(facts: dict[str, str]) -> None:
    version = facts.get("redis_version", "")
    numbers = tuple(int(part) for part in version.split(".")[:2] if part.isdigit())
    if numbers and numbers < OLDEST:
        raise ConfigError(f"this is Redis {version}; reach needs 7.0 or newer")
    if facts.get("cluster_enabled") == "1":
        raise ConfigError("this Redis is part of a Cluster, which reach cannot use yet: give it a single Redis")


def _durability(facts: dict[str, str], fsync: str, replicas: str) -> str:
    """The class that the server is configured for. What cannot be seen counts as less."""
    if replicas.isdigit() and int(replicas) > 0:
        return f"replicated:{int(replicas)}"
    if facts.get("aof_enabled") != "1":
        return "memory"
    if fsync == "no":
        return "memory"
    return "always" if fsync == "always" else "everysec"
