"""The reaper removes who has gone without a word, and nobody else."""

import asyncio
import json

import pytest

from reach.errors import BackendUnavailable
from reach.registry.lost_recorders import LostRecorders
from reach.registry.reaper import Reaper
from reach.testing import FaultyBackend
from tests.unit.registry.place import Place


class Reaped:
    """A place, a reaper on it, and time that goes by in seconds with the reaper running once in each."""

    def __init__(self, partitions: int = 1) -> None:
        self.place = Place(partitions)
        self.reaper = Reaper(self.place.another(), "w1", clock=self.place.clock)
        self.removed = self.instances = 0

    async def seconds(self, count: int, *beating: tuple[str, str]) -> None:
        for _ in range(count):
            self.place.clock.advance(1_000)
            for agent_id, instance_id in beating:
                await self.place.backend.beat(agent_id, instance_id, b"{}")
            report = await self.reaper.run_once()
            self.removed += report.get("removed", 0)
            self.instances += report.get("instances", 0)

    async def registered(self) -> list[str]:
        return sorted((await self.place.backend.snapshot()).agents)


@pytest.fixture
def reaped() -> Reaped:
    return Reaped()


async def test_an_agent_is_removed_after_six_missed_beats() -> None:
    reaped = Reaped(partitions=2)
    await reaped.place.register("a", "i1")
    await reaped.place.register("b", "i1")
    await reaped.seconds(30, ("b", "i1"))
    assert await reaped.registered() == ["a", "b"]
    await reaped.seconds(1, ("b", "i1"))
    assert await reaped.registered() == ["b"]
    assert reaped.place.lanes("a") == []
    assert len(reaped.place.lanes("b")) == 6
    assert (reaped.removed, reaped.instances) == (1, 1)
    assert (await reaped.place.backend.registration("a")) == (None, {})
    await reaped.seconds(20, ("b", "i1"))
    assert reaped.removed == 1


async def test_one_silent_instance_is_forgotten_and_the_agent_stays(reaped: Reaped) -> None:
    await reaped.place.register("a", "i1")
    await reaped.place.register("a", "i2")
    await reaped.seconds(32, ("a", "i2"))
    _, beats = await reaped.place.backend.registration("a")
    assert list(beats) == ["i2"]
    assert (reaped.removed, reaped.instances) == (0, 1)
    assert len(reaped.place.lanes()) == 3


async def test_one_at_a_time_over_all_routers(reaped: Reaped) -> None:
    await reaped.place.register("a", "i1")
    other = reaped.place.another()
    for _ in range(40):
        assert await other.lock("reaper", "w2", 5_000)
        await reaped.seconds(1)
    assert reaped.removed == 0
    await reaped.seconds(6)
    assert reaped.removed == 1


async def test_nobody_is_removed_by_fresh_eyes(reaped: Reaped) -> None:
    await reaped.place.register("a", "i1")
    reaped.place.clock.advance(60_000)
    await reaped.seconds(15)
    assert await reaped.registered() == ["a"]
    await reaped.seconds(1)
    assert await reaped.registered() == []


async def test_nobody_is_removed_after_a_stall_before_all_had_time_to_beat(reaped: Reaped) -> None:
    for agent_id in ("a", "b"):
        await reaped.place.register(agent_id, "i1")
    await reaped.seconds(20, ("a", "i1"), ("b", "i1"))
    reaped.place.clock.advance(60_000)  # the server, or this process, stood still
    await reaped.seconds(15)
    assert await reaped.registered() == ["a", "b"]
    await reaped.place.backend.beat("b", "i1", b"{}")
    await reaped.seconds(2)
    assert await reaped.registered() == ["b"]


async def test_a_run_that_is_held_up_in_the_middle_removes_no_more(reaped: Reaped) -> None:
    for agent_id in ("a", "b", "c"):
        await reaped.place.register(agent_id, "i1")
    clock, backend = reaped.place.clock, reaped.place.another()

    def hold_up(step: str) -> None:
        if step == "close_inbox":
            clock.advance(4_000)

    backend._before_step = hold_up
    await reaped.seconds(20, ("a", "i1"), ("b", "i1"), ("c", "i1"))
    reaped.reaper._backend = backend
    await reaped.seconds(31)
    assert await reaped.registered() == ["b", "c"]


async def test_work_that_is_still_renewed_keeps_the_agent_until_its_lease_is_over(reaped: Reaped) -> None:
    place = reaped.place
    await place.register("a", "i1")
    lane = next(key for key in place.lanes() if key.endswith("normal"))
    entry_id = place.store.append(lane, {b"m": b"x", b"l": b"0"})
    group = place.store.stream(lane).group("agent")  # type: ignore[union-attr]
    assert group is not None
    group.read("i1", 1, place.clock.wall_ms())
    for _ in range(40):
        await place.backend.renew(0, "a", "i1", {"normal": [entry_id or ""]})
        await reaped.seconds(1)
    assert await reaped.registered() == ["a"]
    await reaped.seconds(16)
    assert await reaped.registered() == []
    assert place.lanes() == []


async def test_a_registration_without_any_beats_goes_as_well(reaped: Reaped) -> None:
    await reaped.place.register("a", "i1")
    await reaped.seconds(10, ("a", "i1"))
    await reaped.place.backend.leave("a", "i1")  # and the registrar died before it could end the agent
    await reaped.seconds(30)
    assert await reaped.registered() == ["a"]
    await reaped.seconds(21)
    assert await reaped.registered() == []
    assert reaped.place.lanes() == []


async def test_beats_without_a_registration_are_forgotten(reaped: Reaped) -> None:
    await reaped.place.register("a", "i1")
    reaped.place.store.delete("reach:{dev}:agents")
    await reaped.seconds(32)
    assert (await reaped.place.backend.last_beats(0))[1] == []
    assert reaped.instances == 1


async def test_who_registers_in_the_same_moment_stays(reaped: Reaped) -> None:
    await reaped.place.register("a", "i1")
    await reaped.seconds(20)
    backend = reaped.place.another()

    def come_back(step: str) -> None:
        if step == "remove":
            agents = reaped.place.store.make_hash("reach:{dev}:agents")
            agents["a"] = b'{"agent_id":"a","instance_id":"i2","v":9}'

    backend._before_step = come_back
    reaped.reaper._backend = backend
    await reaped.seconds(11)
    assert await reaped.registered() == ["a"]
    assert reaped.removed == 0
    assert len(reaped.place.lanes()) == 3, "its inboxes are open again"
    await asyncio.sleep(0)


async def test_consumers_of_instances_that_are_gone_go_in_turn(reaped: Reaped, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("reach.registry.sweeper.MAX_AGENTS", 2)
    names = [f"a{number}" for number in range(5)]
    for name in names:
        await reaped.place.register(name, "i1")
        await reaped.place.backend.take(0, name, "i1", 1)
    beating = [(name, "i1") for name in names]
    await reaped.seconds(590, *beating)
    assert [await reaped.place.backend.sweep(0, name, 580_000) for name in names[:1]] == [3]
    await reaped.seconds(60, *beating)
    assert [await reaped.place.backend.sweep(0, name, 0) for name in names] == [0] * 5
    assert await reaped.registered() == names


async def test_a_process_that_stops_saying_what_it_has_written_is_marked_once() -> None:
    heard: list[int] = []
    reaped = Reaped()
    reaped.reaper = Reaper(reaped.place.another(), "w1", clock=reaped.place.clock, on_lost=heard.append)
    began_ms = await reaped.place.backend.now_ms()
    await reaped.place.backend.tell_recorder("n1/gone", began_ms)
    for second in range(40):
        await reaped.place.backend.tell_recorder("n1/well", began_ms + 1_000 * second)
        await reaped.seconds(1)
    assert heard == [1]
    batches = [json.loads(batch) for _, batch in await reaped.place.backend.read_events(0, "0-0", 0)]
    ((mark,),) = batches
    assert (mark["point"], mark["code"], mark["node"], mark["worker"]) == ("gap", "process.lost", "n1", "gone")
    assert (mark["at_us"], mark["duration_us"]) == ((began_ms + 31_000) * 1000, 31_000_000)


async def test_who_is_marked_and_cannot_be_forgotten_yet_is_counted_once() -> None:
    place, heard = Place(), list[int]()
    faulty = FaultyBackend(place.backend)
    recorders = LostRecorders(faulty.backend, heard.append)
    now_ms = await place.backend.now_ms()
    for name in ("n1/w1", "n1/w2"):
        await place.backend.tell_recorder(name, now_ms)
    faulty.fail("record")
    with pytest.raises(BackendUnavailable):
        await recorders.run(now_ms + 1_000, 500)
    assert heard == []
    faulty.fail("forget_recorder")
    with pytest.raises(BackendUnavailable):
        await recorders.run(now_ms + 2_000, 500)
    assert heard == [2], "they are marked"
    assert await recorders.run(now_ms + 3_000, 500) == 2
    await place.backend.tell_recorder("n1/w1", now_ms + 3_000)
    assert (await recorders.run(now_ms + 9_000, 500), heard) == (1, [2, 1])


async def test_nobody_is_marked_where_nobody_could_speak(reaped: Reaped) -> None:
    """Fresh eyes wait, and a reaper whose own looks came late waits again: the server may have stood still."""
    await reaped.place.backend.tell_recorder("n1/w1", await reaped.place.backend.now_ms())
    reaped.place.clock.advance(60_000)
    await reaped.seconds(10)
    assert await reaped.place.backend.read_events(0, "0-0", 0) == []
