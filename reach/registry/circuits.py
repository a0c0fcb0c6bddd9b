"""Tells the env whose circuit is not closed: for routers that have not met it themselves, and for people."""

from collections.abc import Sequence

from reach import ids
from reach.backend import Backend
from reach.log import event_log
from reach.service import Report

PACE_MS = 500

log = event_log("reach.registry")


class CircuitTeller:
    """A service of every router, for the partitions that it serves. Whoever comes second with the same has nothing to tell.

    Nothing depends on it but how early a message goes elsewhere: `route` itself hands nothing to an agent whose circuit is open.
    """

    name = "circuits"
    interval_ms = PACE_MS

    def __init__(self, backend: Backend, partitions: Sequence[int]) -> None:
        self._backend, self._partitions = backend, tuple(partitions)

    async def run_once(self) -> Report:
        """Compare what is with what was told. Cancelling is safe."""
        told = 0
        for partition in self._partitions:
            now = await self._backend.circuits(partition)
            own = {name for name in now.told if _partition_of(name) in {partition, None}}
            for name in sorted(own | now.are.keys()):
                circuit = now.are.get(name, b"")
                if circuit != now.told.get(name) and await self._backend.tell_circuit(name, circuit):
                    told += 1
                    agent, _, number = name.rpartition("/")
                    log.info("circuit", extra={"agent": agent, "partition": number, "state": _state(circuit)})
        return {"told": told} if told else {}


def _partition_of(name: str) -> int | None:
    """Of what is no circuit's name None: it goes."""
    return ids.count_of(name.rpartition("/")[2])


def _state(circuit: bytes) -> str:
    return "open" if circuit else "closed"
