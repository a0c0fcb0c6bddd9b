"""The agents that are gone, asked of a backend: for people and alerts that have no router's index at hand."""

from reach.backend import Backend
from reach.routing.offline import Offline


async def read_offline(backend: Backend) -> tuple[Offline, int]:
    """Who has gone within the last 24 h and has not come back, and the moment, by the clock of the backend.

    A router has the same in its index, always fresh: `index.offline.counts(now_ms)`.

    Raises:
        BackendError: It cannot be read.
    """
    offline = Offline()
    offline.load((await backend.snapshot()).gone)
    return offline, await backend.now_ms()
