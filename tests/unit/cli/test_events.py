"""`reach events` on an env that goes on working meanwhile."""

import msgspec
import pytest

from reach.backend.memory_backend import MemoryBackend, Store
from reach.cli.events import _records
from reach.testing import ManualClock

BATCHES = 250


class Busy(MemoryBackend):
    """One in which something is recorded whenever anybody reads."""

    recorded = 0

    async def read_events(
        self, partition: int, cursor: str, block_ms: int, max_entries: int = 100
    ) -> list[tuple[str, bytes]]:
        assert self.recorded < 4 * BATCHES, "it reads for ever"
        found = await super().read_events(partition, cursor, block_ms, max_entries)
        await self.put()
        return found

    async def put(self, *more: object) -> None:
        self.recorded += 1
        await self.record(0, msgspec.json.encode([{"at_us": self.recorded, "msg_id": f"m{self.recorded}"}, *more]))


async def test_it_ends_although_records_go_on_coming(capsys: pytest.CaptureFixture[str]) -> None:
    backend = Busy(store=Store(ManualClock()))
    await backend.open()
    for _ in range(BATCHES):
        await backend.put()
    found = [record["msg_id"] async for record in _records(backend, follow=False)]
    assert found[:BATCHES] == [f"m{number}" for number in range(1, BATCHES + 1)]
    assert capsys.readouterr().err == ""


async def test_what_is_no_record_hides_no_other(capsys: pytest.CaptureFixture[str]) -> None:
    backend = Busy(store=Store(ManualClock()))
    await backend.open()
    await backend.put("junk", {"at_us": "late", "msg_id": "odd"}, {"at_us": 7, "msg_id": "last"})
    await backend.record(0, b"junk")
    found = [record["msg_id"] async for record in _records(backend, follow=False)]
    assert found[:2] == ["m1", "last"]
    assert "odd" not in found
    assert capsys.readouterr().err.count("left out") == 2


async def test_it_follows_what_comes() -> None:
    backend = Busy(store=Store(ManualClock()))
    await backend.open()
    await backend.put()
    found: list[str] = []
    async for record in _records(backend, follow=True):
        found.append(record["msg_id"])
        if len(found) == 5:
            break
    assert found == ["m1", "m2", "m3", "m4", "m5"]
