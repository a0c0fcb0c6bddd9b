"""Whose silence it is: the agents', the server's, or that of the one who looks."""

import asyncio
from collections.abc import Callable

import pytest

from reach.backend.memory_backend import MemoryBackend
from reach.errors import BackendError, BackendUnavailable
from reach.registry.grace import Grace
from reach.registry.reaper import Reaper
from reach.registry.watcher import POLL_MS, Watcher
from reach.routing.index import CapabilityIndex
from tests.unit.registry.place import Place, until_waiting

WRITES = frozenset({"moment", "beat", "lock", "leave", "remove", "register", "close_inbox"})
T = 10_000_000


class Server:
    """A place whose server may take no writes (a full disk, a master that has become a replica, CLIENT PAUSE WRITE)."""

    def __init__(self) -> None:
        self.place = Place()
        self.takes_writes = True
        self.reaper = Reaper(self.backend(), "w1", clock=self.place.clock)
        self.watcher = Watcher(self.backend(), CapabilityIndex(), clock=self.place.clock)

    def backend(self, before: Callable[[str], None] = lambda _: None) -> MemoryBackend:
        def check(step: str) -> None:
            before(step)
            if step in WRITES and not self.takes_writes:
                raise BackendUnavailable(f"MISCONF {step}")

        return MemoryBackend(env="dev", store=self.place.store, before_step=check)

    async def seconds(self, count: int, *beating: str) -> None:
        """Time with a reaper and a router, in which these beat where they can."""
        for second in range(count):
            if not self.watcher.loaded:
                await self.watcher.run_once()
            await self.watcher.catch_up()
            looking = asyncio.ensure_future(self.watcher.run_once())
            await until_waiting(self.place.clock)
            self.place.clock.advance(POLL_MS)
            await looking
            if second % 5 == 0 and self.takes_writes:
                for agent_id in beating:
                    await self.place.backend.beat(agent_id, "i1", b"{}")
            try:
                await self.reaper.run_once()
            except BackendError:
                assert not self.takes_writes

    def seen(self) -> dict[str, str]:
        since_ms = self.watcher.index.alive_since_ms(self.watcher.now_ms())
        return {agent_id: agent.state(since_ms) for agent_id, agent in self.watcher.index.agents.items()}


@pytest.fixture
async def server() -> Server:
    made = Server()
    for agent_id in ("a", "b"):
        await made.place.register(agent_id, "i1")
    return made


ALL_READY = {"a": "ready", "b": "ready"}


async def test_a_server_that_takes_no_writes_makes_nobody_suspect_and_removes_nobody(server: Server) -> None:
    """It answers every question, so that only the beats are missing: for three minutes, far longer than six of them."""
    await server.seconds(20, "a", "b")
    server.takes_writes = False
    for _ in range(180):
        await server.seconds(1)
        assert server.seen() == ALL_READY
    server.takes_writes = True
    await server.seconds(14)  # nobody has beaten yet: all of this is their time to come back
    assert server.seen() == ALL_READY
    await server.seconds(30, "a")
    assert server.seen() == {"a": "ready"}, "and who does not come back is removed all the same"


async def test_silence_that_a_router_could_not_hear_makes_nobody_suspect(server: Server) -> None:
    """Its process stood still, and decides about a message before it has looked again."""
    await server.seconds(10, "a", "b")
    server.place.clock.advance(40_000)
    assert server.seen() == ALL_READY
    await server.seconds(1)
    assert server.seen() == ALL_READY


async def test_a_router_that_starts_after_an_outage_finds_nobody_silent(server: Server) -> None:
    server.place.clock.advance(20_000)
    await server.watcher.run_once()
    assert server.seen() == ALL_READY
    await server.place.backend.beat("a", "i1", b"{}")
    for _ in range(14):
        await server.seconds(1, "a")
        assert server.seen() == ALL_READY
    await server.seconds(2, "a")
    assert server.seen() == {"a": "ready", "b": "silent"}


async def test_a_router_that_starts_while_others_beat_knows_who_is_silent(server: Server) -> None:
    server.place.clock.advance(16_000)
    await server.place.backend.beat("a", "i1", b"{}")
    await server.watcher.run_once()
    assert server.seen() == {"a": "ready", "b": "silent"}


@pytest.mark.parametrize(("age_ms", "given"), [(None, False), (8_000, False), (8_001, True), (-5_000, False)])
def test_the_first_look_judges_by_the_newest_beat(age_ms: int | None, given: bool) -> None:
    grace = Grace(POLL_MS)
    grace.first_look(T, 0, None if age_ms is None else T - age_ms)
    assert grace.runs(T + 14_999) is given
    assert not grace.runs(T + 15_000)
    assert bool(grace.floor_ms) is given
    grace.look(T + 1_000, 1_000)
    assert bool(grace.floor_ms) is given


async def test_a_reaper_that_stood_still_in_the_middle_removes_nobody_who_has_come_back(server: Server) -> None:
    """It had read that `a` is silent, stood still before its last step, and `a` went on meanwhile."""
    place = server.place
    met: list[str] = []

    def stand_still(step: str) -> None:
        if step == "remove":
            met.append(step)
            place.clock.advance(60_000)
            _go_on(place, "a")

    await server.seconds(20, "b")
    server.reaper._backend = server.backend(stand_still)
    await server.seconds(13, "b")
    assert met
    assert set((await place.backend.snapshot()).agents) == {"a", "b"}
    assert set((await place.backend.registration("a"))[1]) == {"i1"}
    assert len(place.lanes("a")) == 3


async def test_a_reaper_that_stood_still_forgets_no_instance_that_has_come_back(server: Server) -> None:
    place = server.place
    await place.register("b", "i2")
    met: list[str] = []

    def stand_still(step: str) -> None:
        if step == "leave":
            met.append(step)
            place.clock.advance(60_000)
            place.store.make_zset("reach:{dev}:beats")["b/i2"] = place.clock.wall_ms()

    await server.seconds(20, "a", "b")
    server.reaper._backend = server.backend(stand_still)
    await server.seconds(13, "a", "b")
    assert met
    assert set((await place.backend.registration("b"))[1]) == {"i1", "i2"}


def _go_on(place: Place, agent_id: str) -> None:
    place.store.make_zset("reach:{dev}:beats")[f"{agent_id}/i1"] = place.clock.wall_ms()


async def test_the_dead_of_before_a_step_back_are_removed_in_time(server: Server) -> None:
    await server.seconds(10, "a", "b")
    server.place.clock.advance(-3_600_000)
    await server.seconds(70, "a")
    assert server.seen() == {"a": "ready"}


@pytest.mark.parametrize("score", [float("inf"), 1e300, 9e18])
async def test_a_moment_that_is_none_keeps_no_dead_agent(server: Server, score: float) -> None:
    await server.seconds(10, "a", "b")
    server.place.store.make_zset("reach:{dev}:beats")["b/i1"] = score  # type: ignore[assignment]
    await server.seconds(60, "a")
    assert server.seen() == {"a": "ready"}


async def test_whose_beats_stand_there_without_a_registration_is_no_agent(server: Server) -> None:
    for number in range(50):
        await server.place.backend.beat(f"ghost-{number}", "i1", b'{"state":"draining"}')
    await server.seconds(20, "a", "b")
    assert server.seen() == ALL_READY
    await server.seconds(15, "a", "b")
    assert [last.agent_id for last in (await server.place.backend.last_beats(0))[1]] == ["a", "b"]
    assert (await server.place.backend.snapshot()).gone == {}


async def test_an_agent_that_flaps_leaves_one_tombstone_and_the_routers_know_how_it_is(server: Server) -> None:
    await server.seconds(1)
    for _ in range(30):
        await server.place.ask({"op": "leave", "agent_id": "b", "instance_id": "i1"})
        await server.seconds(1, "a")
        assert server.seen() == {"a": "ready"}
        assert [one.agent_id for one in server.watcher.index.offline.within(server.watcher.now_ms())] == ["b"]
        await server.place.register("b", "i1")
        await server.seconds(1, "a", "b")
        assert server.seen() == ALL_READY
        assert server.watcher.index.offline.within(server.watcher.now_ms()) == []
    snapshot = await server.place.backend.snapshot()
    assert (set(snapshot.agents), snapshot.gone) == ({"a", "b"}, {})


@pytest.mark.parametrize("how", ["change", "snapshot"])
async def test_who_has_just_registered_counts_as_silent_at_no_moment(server: Server, how: str) -> None:
    """A router may decide about a message while the watcher still asks for the first beat."""
    seen: list[dict[str, str]] = []
    await server.watcher.run_once()
    server.watcher._backend = server.backend(lambda _: seen.append(server.seen()))
    await server.place.register("new", "i1")
    if how == "snapshot":
        server.watcher._cursor = None
    await server.watcher.run_once()
    assert {state for states in seen for state in states.values()} == {"ready"}
    assert server.seen() == ALL_READY | {"new": "ready"}
