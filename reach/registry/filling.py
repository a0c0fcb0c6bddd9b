"""A snapshot of the registry becomes an index."""

from reach.backend.steps import Snapshot
from reach.routing.index import CapabilityIndex


def fill(index: CapabilityIndex, snapshot: Snapshot) -> None:
    """What the index holds from now on is what the snapshot tells, and nothing of before."""
    index.load(
        snapshot.agents,
        snapshot.routes,
        snapshot.types,
        snapshot.meta,
        snapshot.circuits,
        snapshot.rules,
        snapshot.families,
    )
