"""The teller: what the env is told of circuits follows what they are, whoever else tells of it too."""

from reach.backend.memory_backend.health import tally
from reach.registry.circuits import CircuitTeller
from reach.registry.watcher import Watcher
from reach.routing.index import CapabilityIndex
from tests.unit.registry.place import Place


class Told:
    """A place, and tellers for its partitions."""

    def __init__(self, partitions: int = 1) -> None:
        self.place = Place(partitions)
        self.backend = self.place.another()
        self.teller = CircuitTeller(self.backend, range(partitions))

    def fail(self, agent: str, partition: int = 0, times: int = 5) -> None:
        for _ in range(times):
            tally(self.backend._partition(partition), agent, "m/0/1-1", good=False)

    def lose(self, partition: int = 0) -> None:
        self.place.store.delete(f"reach:{{dev.{partition}}}:health")

    async def told(self) -> set[str]:
        return set((await self.backend.snapshot()).circuits)


async def test_what_opens_is_told_once_and_what_is_closed_is_taken_back() -> None:
    at = Told(2)
    at.fail("a")
    at.fail("b", 1)
    assert await at.teller.run_once() == {"told": 2}
    assert await at.told() == {"a/0", "b/1"}
    assert await at.teller.run_once() == {}
    at.lose(1)
    assert await at.teller.run_once() == {"told": 1}
    assert await at.told() == {"a/0"}


async def test_each_serves_its_own_partitions_and_two_tell_nothing_twice() -> None:
    at = Told(2)
    at.fail("a")
    at.fail("b", 1)
    assert await CircuitTeller(at.backend, [0]).run_once() == {"told": 1}
    assert await at.told() == {"a/0"}
    assert await CircuitTeller(at.backend, [1]).run_once() == {"told": 1}
    assert await CircuitTeller(at.backend, [0, 1]).run_once() == {}
    assert await at.told() == {"a/0", "b/1"}


async def test_what_was_told_wrongly_or_lost_is_put_right() -> None:
    at = Told()
    at.fail("a")
    await at.teller.run_once()
    for name in ("a/0", "never/0", "junk", "b/x"):
        await at.backend.tell_circuit(name, b"{}")
    assert await at.teller.run_once() == {"told": 4}
    assert await at.told() == {"a/0"}
    at.place.store.delete("reach:{dev}:circuit")
    assert await at.teller.run_once() == {"told": 1}


async def test_an_index_that_is_told_by_changes_knows_what_one_with_a_snapshot_knows() -> None:
    at = Told()
    await at.place.register("a")
    index, later = CapabilityIndex(), CapabilityIndex()
    watcher = Watcher(at.backend, index, clock=at.place.clock)
    await watcher.run_once()
    at.fail("a")
    await at.teller.run_once()
    await watcher.catch_up()
    assert "5 failures in a row" in index.circuits["a"][0].why
    await Watcher(at.backend, later, clock=at.place.clock).run_once()
    assert later.circuits == index.circuits
    at.lose()
    await at.teller.run_once()
    await watcher.catch_up()
    assert index.circuits == {"a": {}}
