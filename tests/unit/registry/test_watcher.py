"""The watcher keeps the index true: changes at once, beats once a second, a snapshot after anything that was missed."""

import asyncio
import gc
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from reach.backend.memory_backend import MemoryBackend
from reach.backend.steps import Change, LastBeat
from reach.errors import BackendUnavailable
from reach.registry import watcher as watcher_module
from reach.registry.watcher import NEW_SETTLE_MS, POLL_MS, SETTLE_MS, Complaints, Watcher
from reach.routing.index import CapabilityIndex
from reach.routing.pattern import parse
from tests.unit.registry.place import Place, until_waiting

WORK = [{"name": "work"}]


def watching(place: Place, before: Callable[[str], None] | None = None) -> Watcher:
    backend = MemoryBackend(env="dev", store=place.store, before_step=before)
    return Watcher(backend, CapabilityIndex(), clock=place.clock)


def seen(watcher: Watcher) -> list[tuple[str, str]]:
    since_ms = watcher.index.alive_since_ms(watcher.now_ms())
    return [(agent.agent_id, agent.state(since_ms)) for agent in watcher.index.match(parse("capability:work"))]


async def step(place: Place, watcher: Watcher, ms: int = POLL_MS) -> None:
    """One run in which nothing is told and `ms` go by."""
    run = asyncio.ensure_future(watcher.run_once())
    await until_waiting(place.clock)
    place.clock.advance(ms)
    await run


@pytest.fixture
def place() -> Place:
    return Place()


async def test_it_starts_from_what_there_is(place: Place) -> None:
    await place.register(capabilities=WORK)
    await place.backend.set_meta("routes", "capability:work", b'{"strategy":"direct"}')
    await place.backend.set_meta("meta", "max_fanout", b"3")
    watcher = watching(place)
    before = watcher.loaded
    assert await watcher.run_once() == {"loaded": 1, "beats": 1}
    assert (before, watcher.loaded) == (False, True)
    await watcher.wait_loaded()
    assert seen(watcher) == [("a", "ready")]
    assert watcher.index.policy("capability:work").strategy == "direct"
    assert watcher.index.setting("max_fanout", 0) == 3
    assert watcher.now_ms() == place.clock.wall_ms()
    place.clock.advance(400)
    assert watcher.now_ms() == place.clock.wall_ms()


async def test_a_registration_is_seen_at_once_with_its_first_beat(place: Place) -> None:
    watcher = watching(place)
    await watcher.run_once()
    run = asyncio.ensure_future(watcher.run_once())
    await until_waiting(place.clock)
    await place.register(capabilities=WORK)
    assert await run == {"changes": 1}
    assert seen(watcher) == [("a", "ready")]


class Untold(MemoryBackend):
    """As an earlier version told it: a registration without its first beat."""

    async def changes(self, cursor: str, block_ms: int) -> list[Change]:
        return [msgspec.structs.replace(change, beat=None) for change in await super().changes(cursor, block_ms)]


@pytest.mark.parametrize(("kind", "asks"), [(MemoryBackend, 0), (Untold, 1)])
async def test_only_who_is_not_told_how_a_newcomer_is_asks_for_beats(
    place: Place, kind: type[MemoryBackend], asks: int
) -> None:
    steps: list[str] = []
    watcher = Watcher(
        kind(env="dev", store=place.store, before_step=steps.append), CapabilityIndex(), clock=place.clock
    )
    await watcher.run_once()
    await place.register(capabilities=WORK)
    steps.clear()
    assert await watcher.run_once() == {"changes": 1}
    assert seen(watcher) == [("a", "ready")]
    assert steps.count("last_beats") == asks


async def test_every_kind_of_change_is_followed(place: Place) -> None:
    watcher = watching(place)
    await watcher.run_once()
    await place.register(capabilities=WORK, accepts=[{"type": "own"}])
    await place.register("b", "i1", capabilities=WORK)
    await place.backend.beat("a", "i1", b'{"state":"draining"}')
    await place.backend.set_meta("types", "more", b"1")
    await place.backend.set_meta("meta", "max_fanout", b"9")
    await place.ask({"op": "leave", "agent_id": "b", "instance_id": "i1"})
    await watcher.run_once()
    assert seen(watcher) == [("a", "draining")]
    assert watcher.index.types.all() >= {"own", "more"}
    assert watcher.index.setting("max_fanout", 0) == 9


async def test_beats_come_once_a_second_and_silence_is_noticed(place: Place) -> None:
    await place.register(capabilities=WORK)
    await place.register("b", "i1", capabilities=WORK)
    watcher = watching(place)
    await watcher.run_once()
    for _ in range(16):
        await step(place, watcher)
        await place.backend.beat("a", "i1", b"{}")
    assert seen(watcher) == [("a", "ready"), ("b", "silent")]
    for _ in range(46):
        await step(place, watcher)
        await place.backend.beat("a", "i1", b"{}")
    assert watcher.index.agents["b"].instances == {}


async def test_what_is_told_while_thousands_beat_waits_for_a_few_of_them_only(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Told(MemoryBackend):
        """Something is told while the beats are on their way."""

        async def last_beats(self, since_ms: int) -> tuple[int, list[LastBeat]]:
            found = await super().last_beats(since_ms)
            await place.backend.set_meta("types", f"told.{len(seen_so_far)}", b"1")
            return found

    class Index(CapabilityIndex):
        def beat(self, agent_id: str, instance_id: str, at_ms: int, data: bytes) -> bool:
            seen_so_far.append("beat")
            return super().beat(agent_id, instance_id, at_ms, data)

        def apply(self, op: str, name: str, data: bytes, at_ms: int = 0) -> None:
            seen_so_far.append(op)
            super().apply(op, name, data, at_ms)

    seen_so_far: list[str] = []
    monkeypatch.setattr(watcher_module, "AT_ONCE", 2)
    for number in range(5):
        await place.register(f"agent-{number}", "i1", capabilities=WORK)
    watcher = Watcher(Told(env="dev", store=place.store), Index(), clock=place.clock)
    await watcher.run_once()
    await watcher.catch_up()  # what was told while it loaded
    seen_so_far.clear()
    for number in range(5):
        await place.backend.beat(f"agent-{number}", "i1", b'{"load":1}')
    await step(place, watcher)
    assert seen_so_far == ["beat", "beat", "type", "beat", "beat", "beat"]
    assert watcher.index.has_type("told.0")


async def test_garbage_is_not_looked_for_while_an_index_is_filled(place: Place) -> None:
    class Index(CapabilityIndex):
        def load(self, *args: Any, **named: Any) -> None:
            told.append(gc.isenabled())
            super().load(*args, **named)

    told: list[bool | str] = []
    await place.register(capabilities=WORK)
    watcher = Watcher(MemoryBackend(env="dev", store=place.store), Index(), clock=place.clock)
    watcher.when_loaded = lambda: told.append("loaded")
    await watcher.run_once()
    assert told == [False, "loaded"]
    assert gc.isenabled()
    place.store.clear()  # FLUSHALL
    place.clock.advance(10)
    await place.register("b", "i1", capabilities=WORK)
    await watcher.run_once()
    assert told == [False, "loaded", False]  # what was taken out of all searches once stays out


async def test_a_gap_in_the_versions_means_a_new_snapshot(place: Place) -> None:
    await place.register(capabilities=WORK)
    watcher = watching(place)
    await watcher.run_once()
    place.store.clear()  # FLUSHALL
    place.clock.advance(10)
    await place.register("b", "i1", capabilities=WORK)
    await place.register("c", "i1", capabilities=WORK)
    assert await watcher.run_once() == {"loaded": 2, "beats": 2}
    assert seen(watcher) == [("b", "ready"), ("c", "ready")]


async def test_after_a_loss_of_the_registry_it_says_that_agents_are_coming_back(
    place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    for agent_id in ("a", "b"):
        await place.register(agent_id, "i1", capabilities=WORK)
    watcher = watching(place)
    await watcher.run_once()
    assert watcher.index.settling_until_ms == 0
    place.store.clear()  # FLUSHALL
    place.clock.advance(10)
    await place.register("a", "i1", capabilities=WORK)
    await watcher.run_once()
    assert seen(watcher) == [("a", "ready")]
    assert watcher.index.settling_until_ms == place.clock.wall_ms() + SETTLE_MS
    assert "registry lost" in caplog.text


async def test_a_registry_that_is_found_empty_was_lost(place: Place) -> None:
    down = False

    def fail(name: str) -> None:
        if down:
            raise BackendUnavailable(f"{name}: down")

    for _ in range(3):
        await place.register("a", "i1", capabilities=WORK)
    watcher = watching(place, fail)
    await watcher.run_once()
    down = True
    with pytest.raises(BackendUnavailable):
        await watcher.run_once()
    down = False
    place.store.clear()
    for _ in range(5):  # the versions of the new registry are further than the old one's
        await place.backend.set_meta("meta", "max_fanout", b"9")
    await watcher.run_once()
    assert watcher.index.settling_until_ms > 0


async def test_a_new_router_gives_time_to_an_empty_registry_and_to_no_other(place: Place) -> None:
    """Nobody can tell it from one that has just forgotten everybody."""
    watcher = watching(place)
    await watcher.run_once()
    assert watcher.index.settling_until_ms == place.clock.wall_ms() + NEW_SETTLE_MS
    await place.register("a", "i1", capabilities=WORK)
    another = watching(place)
    await another.run_once()
    assert another.index.settling_until_ms == 0


class Late(MemoryBackend):
    """The answer to who waits for changes is held up on its way."""

    def __init__(self, place: Place) -> None:
        super().__init__(env="dev", store=place.store)
        self.let = asyncio.Event()

    async def changes(self, cursor: str, block_ms: int) -> list[Change]:
        found = await super().changes(cursor, block_ms)
        if block_ms:
            await self.let.wait()
        return found


async def test_who_meets_something_unknown_can_catch_up(place: Place) -> None:
    backend = Late(place)
    watcher = Watcher(backend, CapabilityIndex(), clock=place.clock)
    await watcher.run_once()
    settling_until_ms = watcher.index.settling_until_ms
    run = asyncio.ensure_future(watcher.run_once())
    await until_waiting(place.clock)
    await place.backend.set_meta("types", "own", b"1")
    await place.register(capabilities=WORK)
    await watcher.catch_up()
    assert watcher.index.has_type("own")
    assert seen(watcher) == [("a", "ready")]
    backend.let.set()
    assert await run == {"changes": 0}  # what was taken in meanwhile is not taken for a gap
    await place.backend.set_meta("types", "more", b"1")
    await watcher.run_once()
    assert watcher.index.has_type("more")
    assert watcher.index.settling_until_ms == settling_until_ms
    await watcher.catch_up()


async def test_catching_up_starts_anew_where_something_was_missed(place: Place) -> None:
    await place.register(capabilities=WORK)
    watcher = watching(place)
    await watcher.run_once()
    place.store.clear()
    place.clock.advance(10)
    await place.register("b", "i1", capabilities=WORK)
    await place.register("c", "i1", capabilities=WORK)
    await watcher.catch_up()
    assert seen(watcher) == [("b", "ready"), ("c", "ready")]
    await watcher.catch_up()


async def test_catching_up_after_a_failure_takes_a_snapshot(place: Place) -> None:
    down = False

    def fail(name: str) -> None:
        if down:
            raise BackendUnavailable(f"{name}: down")

    watcher = watching(place, fail)
    await watcher.run_once()
    down = True
    for run in (watcher.run_once, watcher.catch_up):
        with pytest.raises(BackendUnavailable):
            await run()
    down = False
    await place.register(capabilities=WORK)
    await watcher.catch_up()
    assert seen(watcher) == [("a", "ready")]


async def test_after_a_lost_server_it_starts_anew(place: Place) -> None:
    down = False

    def fail(name: str) -> None:
        if down:
            raise BackendUnavailable(f"{name}: down")

    watcher = watching(place, fail)
    await watcher.run_once()
    down = True
    with pytest.raises(BackendUnavailable):
        await watcher.run_once()
    assert watcher.loaded, "what was known still serves"
    await place.register(capabilities=WORK)
    down = False
    assert await watcher.run_once() == {"loaded": 1, "beats": 1}
    assert seen(watcher) == [("a", "ready")]


async def test_after_a_stall_nobody_becomes_suspect_for_15_s(place: Place) -> None:
    await place.register(capabilities=WORK)
    await place.register("b", "i1", capabilities=WORK)
    watcher = watching(place)
    await watcher.run_once()
    await step(place, watcher, 40_000)
    assert seen(watcher) == [("a", "ready"), ("b", "ready")]
    await place.backend.beat("a", "i1", b"{}")
    for _ in range(14):
        await step(place, watcher)
    assert seen(watcher) == [("a", "ready"), ("b", "ready")]
    for _ in range(2):
        await place.backend.beat("a", "i1", b"{}")
        await step(place, watcher)
    assert seen(watcher) == [("a", "ready"), ("b", "silent")]


async def test_when_the_clock_goes_back_new_beats_still_count(place: Place) -> None:
    await place.register(capabilities=WORK)
    await place.register("b", "i1", capabilities=WORK)
    watcher = watching(place)
    await watcher.run_once()
    place.clock.advance(-3_600_000)
    await step(place, watcher)
    for _ in range(40):
        await place.backend.beat("a", "i1", b"{}")
        await step(place, watcher)
    assert seen(watcher)[0] == ("a", "ready")
    assert watcher.index.agents["a"].last_beat_ms() <= place.clock.wall_ms()
    assert watcher.now_ms() == place.clock.wall_ms()


async def test_a_change_with_an_id_of_the_future_does_not_hide_the_next_beats(place: Place) -> None:
    await place.register(capabilities=WORK)
    watcher = watching(place)
    await watcher.run_once()
    fields = {b"v": b"2", b"op": b"state", b"n": b"a/i1", b"d": b'{"state":"draining"}'}
    place.store.append("reach:{dev}:changes", fields, entry_id="99000000000000-0")
    await watcher.run_once()
    assert seen(watcher) == [("a", "draining")]
    for _ in range(3):
        await step(place, watcher)
    await place.backend.beat("a", "i1", b"{}")
    await step(place, watcher)
    assert seen(watcher) == [("a", "ready")]


async def test_what_cannot_be_read_is_said_once_and_a_beat_that_says_more_counts(
    place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    backend = MemoryBackend(env="dev", store=place.store)
    watcher = Watcher(backend, CapabilityIndex(Complaints().hear), clock=place.clock)
    await place.register(capabilities=WORK)
    await place.register("b", "i1", capabilities=WORK)
    await watcher.run_once()
    for run in range(20):
        await place.backend.beat("a", "i1", b'{"state":"busy","mood":"fine"}')
        await place.backend.beat("b", "i1", b'{"state":"dreaming"}')
        await (step(place, watcher) if run else watcher.run_once())
    assert seen(watcher) == [("a", "busy"), ("b", "silent")]
    said = [getattr(record, "of", "") for record in caplog.records if record.message.startswith("unreadable record ")]
    assert said == ["b/i1"]


def test_complaints_are_bounded(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr(watcher_module, "MAX_TOLD", 2)
    complaints = Complaints()
    for name in ("a", "b", "a", "c"):
        complaints.hear(name, "junk")
    assert len(caplog.records) == 2
