"""Deletes the consumers that processes leave behind in streams when they die: without it every restart adds one for ever."""

from collections.abc import Collection

from reach.backend import Backend

#: An instance that lives is seen every few seconds, also when there is no work.
IDLE_MS = 600_000
#: So many agents are looked at in one run, in turn, so that it stays short however many there are.
MAX_AGENTS = 20


class Sweeper:
    """What one reaper remembers: whose turn it is."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._last = ""

    async def run(self, agents: Collection[str]) -> int:
        """Look at the doors, and at the inboxes of the next few of `agents`. How many consumers were deleted."""
        ordered = sorted(agents)
        chosen = [name for name in ordered if name > self._last][:MAX_AGENTS]
        self._last = chosen[-1] if len(chosen) == MAX_AGENTS else ""
        gone = 0
        for partition in range(self._backend.partitions):
            for agent_id in ("", *chosen):
                gone += await self._backend.sweep(partition, agent_id, IDLE_MS)
        return gone
