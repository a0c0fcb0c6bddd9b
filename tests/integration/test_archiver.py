"""From Redis into a store: nothing twice, nothing silently lost, whoever is away."""

import uuid
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import msgspec
import pytest

from reach.backend.port import Backend
from reach.errors import ConfigError
from reach.events.archiver import GROUP, Archiver
from reach.events.opening import open_store
from reach.events.sqlite import SqliteStore
from reach.events.store import Event, Query, StoreUnavailable
from reach.testing import FaultyBackend
from tests.integration.spine import Connect

pytestmark = pytest.mark.leaves_work(why="the archivers' group stays, as in life")


class Lame(SqliteStore):
    """A store that is away while `away` says so; `half`: it keeps what it is given, and says that it has not."""

    away = half = False

    async def write(self, events: Sequence[Event]) -> int:
        if self.away and not self.half:
            raise StoreUnavailable("away")
        kept = await super().write(events)
        if self.half:
            raise StoreUnavailable("half away")
        return kept


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Lame]:
    made = Lame(str(tmp_path))
    yield made
    await made.close()


async def write(backend: Backend, *numbers: int) -> None:
    now_us, by = await backend.now_ms() * 1000, str(uuid.uuid4())  # no two writers write the same
    batch = [{"at_us": now_us + at, "msg_id": f"m{at}", "worker": by} for at in numbers]
    await backend.record(0, msgspec.json.encode(batch))


async def kept(store: SqliteStore) -> list[str]:
    return [found.get("msg_id") or f"gap of {found['counts']['batches']}" for found in await store.find(Query())]


async def drain(archiver: Archiver) -> None:
    while await archiver.run_once():
        pass


async def test_everything_is_kept_once_also_where_the_store_was_away(backend: Backend, store: Lame) -> None:
    archiver = Archiver(backend, store, [0], "a1")
    await write(backend, 1, 2)
    store.away = True
    with pytest.raises(StoreUnavailable):
        await archiver.run_once()
    store.half = True
    with pytest.raises(StoreUnavailable):
        await archiver.run_once()
    store.away = store.half = False
    await write(backend, 3)
    await drain(archiver)
    assert await kept(store) == ["m1", "m2", "m3"]
    await archiver.close()


@pytest.mark.parametrize("kind", ["sqlite", "jsonl"])
async def test_a_batch_that_was_written_twice_is_kept_once(backend: Backend, tmp_path: Path, kind: str) -> None:
    """Its writer was cut off, or lost its connection, before it heard that the batch lay there."""
    at_us = await backend.now_ms() * 1000
    batch = msgspec.json.encode([{"at_us": at_us + n, "msg_id": f"m{n}", "worker": "w"} for n in range(3)])
    store = open_store(f"{kind}:{tmp_path}")
    archiver = Archiver(backend, store, [0], "a1")
    for again in (1, 2):  # twice in one reading, then once more in a later one
        for _ in range(again):
            await backend.record(0, batch)
        await drain(archiver)
    assert [one["msg_id"] for one in await store.find(Query())] == ["m0", "m1", "m2"]
    await archiver.close()


async def test_what_a_dead_archiver_held_is_kept_by_another(backend: Backend, store: Lame) -> None:
    await write(backend, 1)
    assert (await backend.follow_events(0, GROUP, "dead")).batches
    archiver = Archiver(backend, store, [0], "a2")
    await drain(archiver)
    assert await kept(store) == []
    taken = await backend.follow_events(0, GROUP, "a2", idle_ms=0)
    assert taken.batches
    await drain(archiver)
    assert await kept(store) == ["m1"]
    await archiver.close()


async def test_of_an_idle_partition_it_asks_one_thing_a_run(backend: Backend, store: Lame) -> None:
    watched = FaultyBackend(backend)
    archiver = Archiver(watched.backend, store, [0], "a1")
    await archiver.run_once()  # which also tidies
    watched.calls.clear()
    for _ in range(3):
        await archiver.run_once()
    assert [call for call in watched.calls if call != "finish_events"] == ["follow_events"] * 3
    await archiver.close()


async def test_what_was_trimmed_meanwhile_is_a_gap(connect: Connect, backend: Backend, store: Lame) -> None:
    await backend.set_meta("meta", "max_events", b"2")
    bounded = await connect()
    archiver = Archiver(bounded, store, [0], "a1")
    await write(bounded, 0)
    await drain(archiver)
    for number in range(1, 6):
        await write(bounded, number)
    await drain(archiver)
    assert sorted(await kept(store)) == ["gap of 3", "m0", "m4", "m5"]
    await archiver.close()


async def test_a_gap_outlives_a_store_that_is_away(connect: Connect, backend: Backend, store: Lame) -> None:
    await backend.set_meta("meta", "max_events", b"1")
    bounded = await connect()
    archiver = Archiver(bounded, store, [0], "a1")
    await drain(archiver)
    for number in range(3):
        await write(bounded, number)
    store.away = True
    for _ in range(2):
        with pytest.raises(StoreUnavailable):
            await archiver.run_once()
    store.away = False
    await drain(archiver)
    assert sorted(await kept(store)) == ["gap of 2", "m2"]
    await archiver.close()


async def test_junk_stops_nothing(backend: Backend, store: Lame) -> None:
    for junk in (b"", b"{}", b"\xff\xfe", b"[" * 9_000, b'[1,"x",null]'):
        await backend.record(0, junk)
    await write(backend, 1)
    archiver = Archiver(backend, store, [0], "a1")
    await drain(archiver)
    assert await kept(store) == ["m1"]
    assert (archiver.kept, archiver.unreadable) == (1, 4 + 3), "four batches are none, and of one its three parts"
    await archiver.close()


async def test_it_counts_what_it_has_kept_missed_and_failed_at(connect: Connect, backend: Backend, store: Lame) -> None:
    await backend.set_meta("meta", "max_events", b"1")
    bounded = await connect()
    archiver = Archiver(bounded, store, [0], "a1")
    await drain(archiver)
    store.away = True
    for number in range(3):
        await write(bounded, number)
    for _ in range(2):
        with pytest.raises(StoreUnavailable):
            await archiver.run_once()
    assert (archiver.kept, archiver.missed, archiver.failures) == (0, 2, 2)
    store.away = False
    await drain(archiver)
    assert (archiver.kept, archiver.missed, archiver.failures) == (2, 2, 2), "the newest record, and the gap before it"
    await archiver.close()


async def test_a_store_that_can_never_be_used_does_not_keep_the_worker_from_ending(
    backend: Backend, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("no folder")
    await write(backend, 1)
    archiver = Archiver(backend, SqliteStore(str(tmp_path / "file")), [0], "a1")
    with pytest.raises(ConfigError):
        await archiver.run_once()
    await archiver.close()
    assert archiver.failures == 2


def test_the_store_of_a_url_is_the_same(tmp_path: Path) -> None:
    assert isinstance(open_store(f"sqlite:{tmp_path}"), SqliteStore)
