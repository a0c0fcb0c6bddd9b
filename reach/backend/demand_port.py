"""The part of the Backend protocol by which routers share what is asked of capabilities. See `reach.backend.port`."""

from collections.abc import Sequence
from typing import Protocol


class DemandPort(Protocol):
    """Counts of an env, written over every few seconds: a lost one is made good by the next."""

    async def tell_demand(self, name: str, told: bytes, forget: Sequence[str] = ()) -> None:
        """Write what one router counts, or what was reckoned of all, and drop some names. All of it is gone a minute after the last."""
        ...

    async def read_demand(self) -> dict[str, bytes]:
        """What was told under each name. Read only."""
        ...

    async def lying(self, agents: Sequence[str]) -> list[int]:
        """How many messages lie in the inboxes of each agent, running ones included, over all partitions. Read only."""
        ...
