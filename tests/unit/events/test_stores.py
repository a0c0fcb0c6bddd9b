"""Every store of events: what is kept is found, each record once, for as many days as it was told."""

import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path

import pytest

from reach.errors import ConfigError
from reach.events.opening import open_store
from reach.events.store import DAY_US, FIELDS, Event, EventStore, Query, StoreUnavailable, event_of, events_of

NOON = 1_780_000_000_000_000  # 2026-05-28


def event(number: int, at_us: int = NOON, **fields: str) -> Event:
    pairs = "".join(f',"{name}":"{value}"' for name, value in fields.items())
    made = event_of(f"0/{number}-0/0", f'{{"at_us":{at_us + number}{pairs}}}'.encode())
    assert made is not None
    return made


@pytest.fixture(params=["sqlite", "jsonl"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[EventStore]:
    made = open_store(f"{request.param}:{tmp_path / 'events'}", days=3)
    await made.open()
    yield made
    await made.close()
    await made.close()


async def moments(store: EventStore, **query: object) -> list[int]:
    return [found["at_us"] - NOON for found in await store.find(Query(**query))]  # type: ignore[arg-type]


async def test_what_is_written_is_found_by_its_fields(store: EventStore) -> None:
    await store.write(
        [
            event(1, agent="refund", code="ok", correlation_id="c1"),
            event(2, agent="refund", code="handler.error", correlation_id="c2", schema="a.v1"),
            event(3, agent="french", code="ok", correlation_id="c1"),
        ]
    )
    assert await moments(store) == [1, 2, 3]
    assert await moments(store, fields={"correlation_id": ("c1",)}) == [1, 3]
    assert await moments(store, fields={"agent": ("refund", "french"), "code": ("ok",)}) == [1, 3]
    assert await moments(store, fields={"schema": ("a.v1",)}) == [2]
    assert await moments(store, fields={"agent": ("nobody",)}) == []
    assert await moments(store, since_us=NOON + 2, until_us=NOON + 3) == [2]
    assert await moments(store, max_found=2) == [2, 3]


async def test_a_text_is_found_as_it_stands(store: EventStore) -> None:
    await store.write([event(1, reason="Over 50 % of ALL"), event(2, reason="a_b"), event(3, reason="axb")])
    assert await moments(store, text="50 % of all") == [1]
    assert await moments(store, text="a_b") == [2]
    assert await moments(store, text="%") == [1]


async def test_the_same_record_is_told_once_however_often_it_comes(store: EventStore) -> None:
    both = [event(1), event(2)]
    await store.write(both)
    await store.write(both)
    assert await moments(store) == [1, 2]


async def test_days_are_looked_through_from_the_newest_and_the_old_ones_go(store: EventStore) -> None:
    await store.write([event(day, NOON + day * DAY_US) for day in range(5)])
    assert await moments(store, since_us=NOON + DAY_US, max_found=2) == [3 * DAY_US + 3, 4 * DAY_US + 4]
    assert await moments(store, since_us=NOON + DAY_US, until_us=NOON + 2 * DAY_US) == [DAY_US + 1]
    assert await store.prune(NOON + 4 * DAY_US) == 2
    assert await store.prune(NOON + 4 * DAY_US) == 0
    assert [at // DAY_US for at in await moments(store)] == [2, 3, 4]
    await store.write([event(9, NOON + 4 * DAY_US)])
    assert len(await moments(store)) == 4


async def test_a_record_without_a_moment_is_kept_until_the_first_days_go(store: EventStore) -> None:
    odd = event_of("0/1-0/0", b'{"at_us":"soon","agent":"a","odd":{"x":1}}')
    assert odd is not None
    await store.write([odd])
    assert await store.find(Query(fields={"agent": ("a",)})) == [{"at_us": "soon", "agent": "a", "odd": {"x": 1}}]
    assert await store.prune(NOON) == 1


async def test_one_reads_while_another_writes(store: EventStore, tmp_path: Path) -> None:
    await store.write([event(1)])
    kind = type(store).__name__.removesuffix("Store").lower().replace("jsonlines", "jsonl")
    reader = open_store(f"{kind}:{tmp_path / 'events'}")
    assert await moments(reader) == [1]
    await store.write([event(2)])
    assert await moments(reader) == [1, 2]
    await reader.close()


@pytest.mark.parametrize("url", ["", "sqlite:", "mysql:/x", "events"])
def test_what_is_no_store_is_named(url: str) -> None:
    with pytest.raises(ConfigError, match="is no event store"):
        open_store(url)


async def test_a_folder_that_cannot_be_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for kind in ("sqlite", "jsonl"):
        with pytest.raises(ConfigError, match="file"):
            await open_store(f"{kind}:{tmp_path / 'file' / 'events'}").open()


def test_what_can_be_asked_is_said() -> None:
    with pytest.raises(ValueError, match="not found by colour; by: point"):
        Query(fields={"colour": ("red",)})
    with pytest.raises(ValueError, match="max_found"):
        Query(max_found=0)


@pytest.mark.parametrize("junk", [b"", b"[]", b"1", b"\xff", b'{"a":', b'"x"'])
def test_what_is_no_record_is_no_event(junk: bytes) -> None:
    assert event_of("k", junk) is None


async def test_a_line_that_was_torn_hides_no_other(tmp_path: Path) -> None:
    store = open_store(f"jsonl:{tmp_path}")
    await store.write([event(1)])
    path = tmp_path / "events-2026-05-28.jsonl"
    with path.open("ab") as file:
        file.write(b'{"key":"0/2-0/0","ev')
    await store.write([event(3)])
    assert await moments(store) == [1, 3]


async def test_a_store_that_cannot_be_written_says_so_and_goes_on_later(tmp_path: Path) -> None:
    store = open_store(f"sqlite:{tmp_path}")
    await store.write([event(1)])
    path = tmp_path / "events-2026-05-28.sqlite"
    held = sqlite3.connect(path, check_same_thread=False)
    held.execute("BEGIN EXCLUSIVE")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("reach.events.sqlite.BUSY_S", 0.0)
        await store.close()
        with pytest.raises(StoreUnavailable, match="locked"):
            await store.write([event(2)])
    held.rollback()
    held.close()
    await store.write([event(2)])
    assert await moments(store) == [1, 2]
    await store.close()


@pytest.mark.parametrize(
    "odd", ['"at_us":"soon"', '"code":7', '"agent":""', '"at_us":-1', '"at_us":null,"schema":null', '"worker":{}']
)
def test_a_batch_with_an_odd_record_reads_as_its_records_do(odd: str) -> None:
    plain = '{"at_us":5,"point":"route.sent","agent":"a","more":[1]}'
    batch = f"[{plain}, {{{odd}}} ,7,{plain}]".encode()
    first, strange, none, last = events_of(3, batch)
    assert none is None
    assert first is not None
    assert last is not None
    assert (first.at_us, first.fields, first.body) == (5, {"point": "route.sent", "agent": "a"}, plain.encode())
    assert strange == event_of(f"{first.batch}/001", f"{{{odd}}}".encode())
    assert (first.values, last.key) == (last.values, f"{first.batch}/003")
    alone = events_of(3, f"[{plain}]".encode())[0]
    assert alone is not None
    assert (alone.values, alone.key == first.key) == (first.values, False)


@pytest.mark.parametrize("junk", [b"", b"{}", b"\xff\xfe", b"[" * 9_000, b"[1,"])
def test_what_is_no_batch_is_said(junk: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        events_of(0, junk)


ODD_BATCH = b'[{"at_us":%d,"msg_id":"m1"},{"at_us":%d,"msg_id":"m2","envelope":{"x":%%s},"chosen":"a"}]' % (
    NOON,
    NOON + 1,
)


@pytest.mark.parametrize("odd", [rb'"\ud83d"', rb'{"\udc00":1}', b"1e400", b"-1E+999", b"9" * 5_000])
async def test_a_record_with_what_no_reader_could_read_hides_no_other(store: EventStore, odd: bytes) -> None:
    """Half a character is legal JSON, and so is a number beyond every float: anybody may have written them."""
    events = events_of(0, ODD_BATCH % odd)
    assert await store.write([each for each in events if each is not None]) == 2
    one, other = await store.find(Query(text="m"))
    assert (one["msg_id"], other["msg_id"], other["chosen"]) == ("m1", "m2", "a")
    assert "envelope" in other or other["left_out"]["why"] == "unreadable"
    assert await moments(store, fields={"msg_id": ("m2",)}) == [1]


def test_a_record_that_is_no_text_is_none() -> None:
    one, other = events_of(0, b'[{"msg_id":"m1"},{"msg_id":"m2","envelope":{"x":"\xff"}}]')
    assert one is not None
    assert other is None


async def test_a_file_as_it_was_once_is_gone_on_with(tmp_path: Path) -> None:
    """The key was its primary key, and there were no batches."""
    day = tmp_path / "events-2026-05-28.sqlite"
    columns = ", ".join(f"{name} TEXT" for name in FIELDS)
    with closing(sqlite3.connect(day)) as made, made:
        made.execute(
            f"CREATE TABLE events (key TEXT PRIMARY KEY, at_us INTEGER NOT NULL, {columns}, body BLOB NOT NULL) WITHOUT ROWID"
        )
        made.execute("INSERT INTO events (key, at_us, body) VALUES ('0/1-0/0', ?, ?)", (NOON, b'{"at_us":%d}' % NOON))
    store = open_store(f"sqlite:{tmp_path}")
    assert await store.write([event(1), event(2)]) == 1  # the first is there, under the same key
    assert await store.write([event(2), event(3)]) == 1
    assert await moments(store) == [0, 2, 3]
    await store.close()
