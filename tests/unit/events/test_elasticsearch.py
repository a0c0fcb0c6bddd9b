"""The sink for Elasticsearch and OpenSearch against the strict stand-in: each record once, whatever is refused, slow or cut off."""

import logging
from collections.abc import AsyncIterator, Iterator, Mapping
from functools import partial
from typing import Any

import pytest

from reach.errors import ConfigError
from reach.events.elasticsearch import PAUSES_S, ElasticStore
from reach.events.opening import open_store
from reach.events.store import Query, StoreUnavailable
from tests.unit.events.elastic_server import ElasticServer
from tests.unit.events.test_stores import NOON, event, moments

SECRET = "the-secret-key"


@pytest.fixture(params=["elasticsearch", "opensearch"])
def server(request: pytest.FixtureRequest) -> Iterator[ElasticServer]:
    with ElasticServer(request.param).running() as server:
        yield server


class Sleeps(list[float]):
    async def sleep(self, seconds: float) -> None:
        self.append(seconds)


@pytest.fixture
def slept() -> Sleeps:
    return Sleeps()


def store_at(
    server: ElasticServer, slept: Sleeps, max_bulk_bytes: int = 5 << 20, environ: Mapping[str, str] | None = None
) -> ElasticStore:
    url = f"es+{server.url}/hops"
    return ElasticStore(url, days=3, environ=environ, sleep=slept.sleep, max_bulk_bytes=max_bulk_bytes)


@pytest.fixture
async def store(server: ElasticServer, slept: Sleeps) -> AsyncIterator[ElasticStore]:
    made = store_at(server, slept)
    await made.open()
    yield made
    await made.close()
    await made.close()


def _always(status: int, document: dict[str, Any]) -> int:
    return status


def bulks(server: ElasticServer) -> list[bytes]:
    return [body for _, path, _, body in server.requests if path == "/hops/_bulk"]


async def test_what_it_needs_is_put_again_and_again(store: ElasticStore, server: ElasticServer) -> None:
    await store.write([event(1)])
    await store.open()
    assert await moments(store) == [1]
    assert "3d" in str(server.policies["hops"])
    assert server.templates["hops"]["template"]["mappings"]["dynamic"] is False
    assert list(server.streams) == ["hops"]


async def test_what_is_written_is_found(store: ElasticStore) -> None:
    records = [
        event(1, agent="refund", code="ok", reason="Over 50 % of ALL"),
        event(2, agent="refund", code="handler.error", reason="a*b"),
        event(3, agent="french", reason="axb"),
    ]
    assert await store.write(records) == 3
    assert await store.write(records) == 0
    assert await moments(store, fields={"agent": ("refund",)}) == [1, 2]
    assert await moments(store, fields={"agent": ("refund", "french"), "code": ("ok",)}) == [1]
    assert await moments(store, text="50 % of all") == [1]
    assert await moments(store, text="a*b") == [2]
    assert await moments(store, since_us=NOON + 2, until_us=NOON + 3) == [2]
    assert await moments(store, max_found=2) == [2, 3]
    assert await store.find(Query(fields={"agent": ("french",)})) == [
        {"at_us": NOON + 3, "agent": "french", "reason": "axb"}
    ]
    assert await store.prune(NOON) == 0


async def test_many_are_found_page_by_page(store: ElasticStore) -> None:
    await store.write([event(number // 2 * 2, n=str(number)) for number in range(0, 5_000, 2)])
    await store.write([event(number) for number in range(1, 5_000, 2)])
    assert await moments(store, max_found=4_500) == list(range(500, 5_000))


async def test_only_what_failed_is_asked_again(store: ElasticStore, server: ElasticServer, slept: Sleeps) -> None:
    times = iter([429, 429, 503])
    server.odd = lambda document: next(times, 0) if document["at_us"] == NOON + 2 else 0
    assert await store.write([event(1), event(2), event(3)]) == 3
    assert await moments(store) == [1, 2, 3]
    assert [body.count(b"create") for body in bulks(server)] == [3, 1, 1, 1]
    assert slept == list(PAUSES_S[:3])


async def test_a_server_without_room_is_given_time_and_then_told_of(
    store: ElasticStore, server: ElasticServer, slept: Sleeps
) -> None:
    server.fault = lambda method, path, body: (429, {"Retry-After": "3"}) if "_bulk" in path else None
    with pytest.raises(StoreUnavailable, match="no room for 2 of 2"):
        await store.write([event(1), event(2)])
    assert slept == [3.0] * len(PAUSES_S)
    server.fault = lambda method, path, body: None
    assert await store.write([event(1), event(2)]) == 2


async def test_a_record_that_is_refused_is_kept_as_bytes_and_stops_no_other(
    store: ElasticStore, server: ElasticServer, caplog: pytest.LogCaptureFixture
) -> None:
    server.odd = lambda document: 400 if "agent" in document else 0
    assert await store.write([event(1), event(2, agent="odd"), event(3)]) == 3
    assert await store.find(Query()) == [
        {"at_us": NOON + 1},
        {"at_us": NOON + 2, "agent": "odd"},
        {"at_us": NOON + 3},
    ]
    assert (store.refused, store.lost) == (1, 0)
    server.odd = lambda document: 400 if document["at_us"] == NOON + 5 else 0
    assert await store.write([event(4), event(5), event(6)]) == 2
    assert (store.refused, store.lost) == (2, 1)
    assert [one for one in caplog.records if one.levelno == logging.ERROR and "0/5-0/0" in one.getMessage()]


async def test_trouble_of_the_server_is_no_fault_of_a_record(store: ElasticStore, server: ElasticServer) -> None:
    for status in (403, 404, 500):
        server.odd = partial(_always, status)
        with pytest.raises(StoreUnavailable):
            await store.write([event(1)])
    server.odd = lambda document: 0
    assert await store.write([event(1)]) == 1
    assert (store.refused, store.lost) == (0, 0)


async def test_a_stream_that_was_deleted_is_made_again(store: ElasticStore, server: ElasticServer) -> None:
    await store.write([event(1)])
    server.streams.clear()
    assert await moments(store) == []
    with pytest.raises(StoreUnavailable):
        await store.write([event(2)])
    assert await store.write([event(2)]) == 1


async def test_a_connection_that_is_cut_after_the_work_doubles_nothing(
    store: ElasticStore, server: ElasticServer
) -> None:
    cuts = iter(["drop"])
    server.fault = lambda method, path, body: next(cuts, None) if "_bulk" in path else None
    assert await store.write([event(1), event(2)]) == 0  # both were there when it asked again
    assert await moments(store) == [1, 2]
    server.fault = lambda method, path, body: "drop"
    with pytest.raises(StoreUnavailable):
        await store.write([event(3)])
    server.fault = lambda method, path, body: None
    await store.write([event(3)])
    assert await moments(store) == [1, 2, 3]
    assert len(server.documents) == 3


async def test_no_request_is_larger_than_it_may_be(server: ElasticServer, slept: Sleeps) -> None:
    store = store_at(server, slept, max_bulk_bytes=2_000)
    await store.open()
    limit = 1_000
    server.fault = lambda method, path, body: (413, {}) if len(body) > limit and "_bulk" in path else None
    records = [event(number, reason="x" * 100) for number in range(20)] + [event(20, reason="y" * 5_000)]
    assert await store.write(records) == 20
    assert await moments(store) == list(range(20))
    assert (store.refused, store.lost) == (1, 1)
    assert max(len(body) for body in bulks(server) if b"yyy" not in body) <= 2_000
    await store.close()


async def test_an_answer_of_a_part_is_none(store: ElasticStore, server: ElasticServer) -> None:
    search = server._search
    await store.write([event(1)])
    for odd in ({"timed_out": True}, {"_shards": {"failed": 1}}):
        server._search = lambda *asked, odd=odd: (200, {**search(*asked)[1], **odd})  # type: ignore[method-assign]
        with pytest.raises(StoreUnavailable, match="part"):
            await store.find(Query())


@pytest.mark.parametrize(
    ("environ", "header"),
    [
        ({"ELASTIC_API_KEY": SECRET}, f"ApiKey {SECRET}"),
        ({"ELASTIC_USERNAME": "me", "ELASTIC_PASSWORD": SECRET}, "Basic bWU6dGhlLXNlY3JldC1rZXk="),
        ({}, None),
    ],
)
async def test_credentials_come_from_the_environment_and_go_nowhere_else(
    server: ElasticServer, slept: Sleeps, environ: dict[str, str], header: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    store = store_at(server, slept, environ=environ)
    await store.open()
    assert {headers.get("Authorization") for _, _, headers, _ in server.requests} == {header}
    server.fault = lambda method, path, body: (401, {})
    with pytest.raises(StoreUnavailable, match="401") as refused:
        await store.write([event(1)])
    assert SECRET not in f"{refused.value!r}{caplog.text}"
    await store.close()


async def test_the_line_end_that_files_of_secrets_have_is_no_part_of_a_key(
    server: ElasticServer, slept: Sleeps
) -> None:
    store = store_at(server, slept, environ={"ELASTIC_API_KEY": f"{SECRET}\n"})
    await store.open()
    assert {headers.get("Authorization") for _, _, headers, _ in server.requests} == {f"ApiKey {SECRET}"}
    await store.close()


def test_a_key_that_no_header_may_have_is_told_and_not_shown() -> None:
    with pytest.raises(ConfigError, match="ELASTIC_API_KEY") as told:
        ElasticStore("es+http://host/hops", environ={"ELASTIC_API_KEY": f"{SECRET}\nX-Other: 1"})
    assert SECRET not in f"{told.value!r}"


async def test_a_server_that_is_not_there_is_told(slept: Sleeps) -> None:
    with ElasticServer().running() as server:
        store = store_at(server, slept)
    with pytest.raises(StoreUnavailable, match="ConnectionRefused"):
        await store.open()


@pytest.mark.parametrize(
    "url",
    ["es+http://", "es+http://host", "es+http://host/UPPER", "es+http://host/a/b", "es+http://me:pw@host/hops"],
)
def test_what_names_no_stream_is_told(url: str) -> None:
    with pytest.raises(ConfigError) as told:
        open_store(url)
    assert "pw" not in str(told.value)


def test_a_url_names_it() -> None:
    assert isinstance(open_store("es+https://search.example:443/hops"), ElasticStore)
