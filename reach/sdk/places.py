"""Where clients and agents live: an address, an env, a clock, and how each of them gets its backend."""

import random
from typing import Protocol

from reach.backend import open_backend
from reach.backend.port import Backend
from reach.clock import Clock, SystemClock


class Place(Protocol):
    """What a client or an agent needs of its surroundings."""

    env: str
    clock: Clock
    rng: random.Random
    #: whether an agent's pulse gets a thread of its own
    threads: bool

    def backend(self) -> Backend:
        """A new backend, not yet open: one per client, agent and thread."""
        ...

    async def enter(self) -> None:
        """Be there: whoever enters leaves again."""
        ...

    async def leave(self) -> None:
        """Be gone. Each leave belongs to one enter."""
        ...


class RedisPlace:
    """A Redis or Valkey that others share."""

    threads = True

    def __init__(self, url: str, env: str) -> None:
        """Raises ConfigError where the URL or the env cannot be used."""
        self.url = url
        self.env = env
        self.clock: Clock = SystemClock()
        self.rng = random.Random()  # noqa: S311 - jitter, no secret
        open_backend(url, env=env)

    def backend(self) -> Backend:
        """A new backend of this address."""
        return open_backend(self.url, env=self.env)

    async def enter(self) -> None:
        """Nothing: the server is somebody else's."""

    async def leave(self) -> None:
        """Nothing."""
