"""A search writes nothing, and finds what is there also where its user may not write."""

import os
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from reach.errors import ConfigError
from reach.events.opening import open_store
from reach.events.sqlite import SqliteStore
from reach.events.store import DAY_US, EventStore, Query, StoreUnavailable, event_of

NOON_US = 20_000 * DAY_US + DAY_US // 2
FILE = "events-2024-10-04.sqlite"
NOBODY = 65_534


@pytest.fixture
def folder() -> Iterator[Path]:
    """One that anybody may look into."""
    with tempfile.TemporaryDirectory() as name:
        path = Path(name)
        path.chmod(0o755)
        yield path
        path.chmod(0o755)


@contextmanager
def as_reader(folder: Path) -> Iterator[None]:
    """As somebody who may read there, and not write: root may do anything, so it becomes nobody meanwhile."""
    folder.chmod(0o555)
    was = os.geteuid()
    if was == 0:
        os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(was)
        folder.chmod(0o755)


async def filled(kind: str, folder: Path, *, close: bool = True) -> EventStore:
    store = open_store(f"{kind}:{folder}")
    await store.open()
    event = event_of("0/b/000", b'{"at_us":%d,"msg_id":"m1","point":"route.sent"}' % NOON_US)
    assert event is not None
    await store.write([event])
    if close:
        await store.close()
    return store


async def asked(kind: str, folder: Path) -> list[str]:
    store = open_store(f"{kind}:{folder}")
    try:
        return [record["msg_id"] for record in await store.find(Query())]
    finally:
        await store.close()


def there(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize("kind", ["sqlite", "jsonl"])
async def test_a_search_leaves_no_file_behind(kind: str, folder: Path) -> None:
    await filled(kind, folder)
    before = there(folder)
    assert await asked(kind, folder) == ["m1"]
    assert there(folder) == before == [f"events-2024-10-04.{kind}"]


@pytest.mark.parametrize("kind", ["sqlite", "jsonl"])
async def test_a_folder_that_may_only_be_read_is_searched(kind: str, folder: Path) -> None:
    await filled(kind, folder)
    with as_reader(folder):
        assert await asked(kind, folder) == ["m1"]


async def test_what_an_archiver_has_not_put_back_yet_is_found_beside_it(folder: Path) -> None:
    store = await filled("sqlite", folder, close=False)
    assert (folder / f"{FILE}-wal").stat().st_size > 0
    with as_reader(folder):
        assert await asked("sqlite", folder) == ["m1"]
    await store.close()


async def test_what_changes_while_it_is_read_is_read_again(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Read as a file that nobody changes it would miss what was written meanwhile."""
    await filled("sqlite", folder)
    writer = SqliteStore(str(folder))
    late = event_of("0/c/000", b'{"at_us":%d,"msg_id":"m2"}' % (NOON_US + 1))
    assert late is not None
    real = sqlite3.connect
    opened: list[bool] = []

    def connect(database: Any, *args: Any, **more: Any) -> Any:
        if "mode=ro" in str(database):
            opened.append("immutable" in str(database))
            if len(opened) == 1:
                writer._insert("2024-10-04", {"0/c": [late]})
        return real(database, *args, **more)

    monkeypatch.setattr(sqlite3, "connect", connect)
    assert await asked("sqlite", folder) == ["m1", "m2"]
    assert opened == [True, False]
    await writer.close()


async def test_what_a_dead_archiver_has_left_beside_it_is_told_where_it_cannot_be_read(folder: Path) -> None:
    store = await filled("sqlite", folder, close=False)
    left = {name: (folder / name).read_bytes() for name in (FILE, f"{FILE}-wal")}
    await store.close()
    for name, data in left.items():
        (folder / name).write_bytes(data)
    with as_reader(folder), pytest.raises(StoreUnavailable, match="ask as the user of the archiver, or copy the files"):
        await asked("sqlite", folder)
    assert await asked("sqlite", folder) == ["m1"]


@pytest.mark.parametrize("kind", ["sqlite", "jsonl"])
async def test_what_may_not_be_read_is_told(kind: str, folder: Path) -> None:
    await filled(kind, folder)
    (folder / f"events-2024-10-04.{kind}").chmod(0)
    with as_reader(folder), pytest.raises(StoreUnavailable, match=r"may not read it|Permission denied"):
        await asked(kind, folder)
    hidden = folder / "hidden"
    hidden.mkdir(mode=0o700)
    hidden.chmod(0)
    with as_reader(folder), pytest.raises(ConfigError, match="Permission denied"):
        await asked(kind, hidden)


@pytest.mark.parametrize("kind", ["sqlite", "jsonl"])
async def test_where_no_store_is_nothing_is_made_and_it_is_told_what_to_do(kind: str, folder: Path) -> None:
    with pytest.raises(ConfigError, match=f"there is no such folder.*--roles archiver --event-store {kind}:"):
        await asked(kind, folder / "typo")
    assert there(folder) == []
    await filled(kind, folder)
    file = folder / f"events-2024-10-04.{kind}"
    with pytest.raises(ConfigError, match=f"no folder; say the one that the files lie in: {kind}:{folder}$"):
        await asked(kind, file)
    assert there(folder) == [file.name]
