"""Stores whose files are damaged, deleted or full: told, never in the way of what comes next, and nothing that was kept is overwritten."""

import logging
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from reach.events.opening import open_store
from reach.events.store import LAST_US, Query, event_of
from tests.unit.events.test_stores import NOON, event, moments

DAY = "2026-05-28"


def _delete_all(folder: Path) -> int:
    """How many files there were."""
    gone = list(folder.iterdir())
    for path in gone:
        path.unlink()
    return len(gone)


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(b"this is no database at all" * 100, id="no database"),
        pytest.param(None, id="a table of another form"),
    ],
)
async def test_a_file_that_cannot_be_used_is_moved_aside_and_the_day_goes_on(
    tmp_path: Path, content: bytes | None, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / f"events-{DAY}.sqlite"
    if content is None:
        other = sqlite3.connect(path)
        other.execute("CREATE TABLE events (something TEXT)")
        other.close()
        content = path.read_bytes()
    else:
        path.write_bytes(content)
    store = open_store(f"sqlite:{tmp_path}", days=3)
    assert await moments(store) == []
    assert await store.write([event(1)]) == 1
    assert await moments(store) == [1]
    aside = tmp_path / f"events-{DAY}.broken-1.sqlite"
    assert aside.read_bytes()[200:] == content[200:]  # the head says since that it was asked to be written ahead
    assert [one for one in caplog.records if one.levelno == logging.ERROR and "moved aside" in one.getMessage()]
    assert await store.prune(NOON + 10 * 86_400_000_000) == 1
    assert not _delete_all(tmp_path)
    await store.close()


async def test_a_file_that_is_damaged_while_it_is_open_is_moved_aside(tmp_path: Path) -> None:
    store = open_store(f"sqlite:{tmp_path}")
    await store.write([event(number) for number in range(2_000)])
    await store.close()
    path = tmp_path / f"events-{DAY}.sqlite"
    with path.open("r+b") as file:
        file.seek(4096)
        file.write(b"\xff" * 200_000)
    await store.write([event(9_000)])
    assert await moments(store) == [9_000]
    assert (tmp_path / f"events-{DAY}.broken-1.sqlite").exists()
    await store.close()


async def test_a_file_that_was_deleted_or_replaced_is_begun_anew(tmp_path: Path) -> None:
    store, other = open_store(f"sqlite:{tmp_path}"), open_store(f"sqlite:{tmp_path}")
    await store.write([event(1)])
    _delete_all(tmp_path)
    await store.write([event(2)])
    assert await moments(store) == [2]
    _delete_all(tmp_path)
    await other.write([event(3)])
    await store.write([event(4)])
    assert await moments(store) == await moments(other) == [3, 4]
    await store.close()
    await other.close()


@pytest.mark.parametrize("kind", ["sqlite", "jsonl"])
async def test_a_folder_that_was_deleted_is_made_again(tmp_path: Path, kind: str) -> None:
    store = open_store(f"{kind}:{tmp_path / 'events'}")
    await store.open()
    await store.write([event(1)])
    shutil.rmtree(tmp_path / "events")
    await store.write([event(2)])
    assert await moments(store) == [2]
    await store.close()


async def test_a_damaged_day_hides_no_other(tmp_path: Path) -> None:
    store = open_store(f"sqlite:{tmp_path}")
    await store.write([event(1)])
    (tmp_path / "events-2026-05-27.sqlite").write_bytes(b"junk" * 1000)
    assert await moments(store) == [1]
    await store.close()


FULL = """
import asyncio, resource, sys
from reach.events.opening import open_store
from reach.events.store import StoreUnavailable, Query
from tests.unit.events.test_stores import event

async def main():
    store = open_store(sys.argv[1])
    await store.open()
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (400_000, hard))
    kept = refused = 0
    while refused < 3:  # in a row: closing a file may make some room
        batch = [event(number, reason="x" * 50) for number in range(kept, kept + 500)]
        try:
            await store.write(batch)
        except StoreUnavailable:
            refused += 1
        else:
            kept, refused = kept + 500, 0
            assert kept < 100_000, "the disk was never full"
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    await store.write(batch)
    found = await store.find(Query(max_found=10_000))
    await store.close()
    assert len(found) == kept + 500, (len(found), kept)
    lines = [path.read_bytes().count(b"\\n") for path in __import__("pathlib").Path(sys.argv[1].partition(":")[2]).glob("*.jsonl")]
    assert lines in ([], [kept + 500]), lines  # no half of an attempt stays

asyncio.run(main())
"""


@pytest.mark.processes
@pytest.mark.parametrize("kind", ["sqlite", "jsonl"])
def test_a_full_disk_is_told_and_what_was_refused_is_kept_when_there_is_room(tmp_path: Path, kind: str) -> None:
    run = subprocess.run(
        [sys.executable, "-c", FULL, f"{kind}:{tmp_path}"], check=False, capture_output=True, text=True, timeout=60
    )
    assert run.returncode == 0, run.stderr


async def test_lines_of_a_foreign_record_may_end_anyhow(tmp_path: Path) -> None:
    odd = event_of("k", b'{"at_us":\r\n%d,\r"agent":"a"}' % NOON)
    assert odd is not None
    store = open_store(f"jsonl:{tmp_path}")
    await store.write([odd, event(1)])
    assert await store.find(Query()) == [{"at_us": NOON, "agent": "a"}, {"at_us": NOON + 1}]


@pytest.mark.parametrize("kind", ["sqlite", "jsonl"])
async def test_a_moment_that_no_calendar_has_is_none(tmp_path: Path, kind: str) -> None:
    store = open_store(f"{kind}:{tmp_path}")
    for at_us in (LAST_US + 1, (1 << 62) - 1, 1 << 70, -1, 1.5):
        made = event_of(f"k{at_us}", b'{"at_us":%s}' % str(at_us).encode())
        assert made is not None
        assert made.at_us == 0
        await store.write([made])
    assert len(await store.find(Query())) == 5
    await store.close()
