"""`reach events search` and `reach tail`: records that fit, from Redis and from an event store."""

import json
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from reach.backend.keys import KeySpace
from reach.backend.private_server import PrivateServer
from reach.events.opening import open_store
from reach.events.store import event_of
from tests.e2e.conftest import StartWorker
from tests.e2e.plain import Wire
from tests.e2e.processes import Process, reach
from tests.waiting import eventually

pytestmark = pytest.mark.processes

EVENTS = KeySpace("dev").events(0)
NOON_US = 1_780_000_000_000_000  # 2026-05-28T20:26:40Z


def put(client: Wire, *records: dict[str, Any]) -> None:
    client("XADD", EVENTS, "*", "b", json.dumps(records), "v", "1")


def found(server: PrivateServer, *arguments: str) -> list[dict[str, Any]]:
    done = reach("events", "search", *arguments, "-o", "ndjson", REACH_REDIS_URL=server.url)
    assert done.returncode == (0 if done.stdout else 1), done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


async def test_search_finds_what_fits_in_redis_and_in_the_store_each_once(
    server: PrivateServer, client: Wire, tmp_path: Path
) -> None:
    old = {"at_us": NOON_US, "point": "agent.completed", "msg_id": "m1", "agent": "bank", "code": "handler.error"}
    new = {"at_us": NOON_US + 60_000_000, "point": "agent.completed", "msg_id": "m2", "agent": "bank", "code": "ok"}
    both = {"at_us": NOON_US + 120_000_000, "point": "message.dead", "msg_id": "m2", "type": "order", "schema": "a.v1"}
    url = f"sqlite:{tmp_path}"
    store = open_store(url)
    await store.open()
    events = [event_of(f"0/{n}-0/0", json.dumps(one).encode()) for n, one in enumerate((old, both))]
    await store.write([event for event in events if event is not None])
    await store.close()
    put(client, new, both)
    assert found(server) == [new, both]
    assert found(server, "--event-store", url) == [old, new, both]
    assert found(server, "--event-store", url, "--agent", "bank", "--code", "ok", "--code", "handler.error") == [
        old,
        new,
    ]
    assert found(server, "--event-store", url, "--point", "message.dead", "--type", "order", "--schema", "a.v1") == [
        both
    ]
    assert found(server, "--event-store", url, "--text", "HANDLER.") == [old]
    assert found(server, "--event-store", url, "--since", "2026-05-28T20:27:00Z", "--until", "2026-05-28T20:28:40") == [
        new
    ]
    assert found(server, "--event-store", url, "--msg-id", "m2", "-n", "1") == [both]
    assert found(server, "--since", "1m") == []
    done = reach("events", "search", "-o", "json", REACH_REDIS_URL=server.url)
    assert json.loads(done.stdout) == [new, both]
    text = reach("events", "search", "--code", "ok", REACH_REDIS_URL=server.url).stdout.decode()
    assert text == f"2026-05-28 20:27:40.000  {'m2':36}  0  agent.completed     bank ok\n"
    for wrong in (("--since", "soon"), ("--since", "2026-13-01"), ("-n", "0")):
        assert reach("events", "search", *wrong, REACH_REDIS_URL=server.url).returncode == 2


def ago(days: float) -> int:
    """A moment so many days ago, us."""
    return round((time.time() - days * 86_400) * 1e6)


def put_at(client: Wire, at_us: int, **fields: str) -> None:
    """A record of that moment, in a batch that was written then."""
    record = {"at_us": at_us, "point": "agent.completed", "leg": 0, "attempt": 1, "trace_id": "ab" * 16, **fields}
    client("XADD", EVENTS, f"{at_us // 1000}-0", "b", json.dumps([record]), "v", "1")


def test_a_failure_is_found_months_later_and_no_longer_than_it_is_to_be_kept(
    server: PrivateServer, client: Wire, start_worker: StartWorker, tmp_path: Path
) -> None:
    store = f"sqlite:{tmp_path}"
    for days, msg_id in ((100, "autumn"), (40, "winter"), (0, "today")):
        put_at(client, ago(days), msg_id=msg_id, agent="bank", code="handler.error")

    def kept() -> set[str]:
        return {one["msg_id"] for one in found(server, "--event-store", store, "--code", "handler.error")}

    archiver = start_worker("--roles", "archiver", "--event-store", store, "--event-days", "120").wait_ready()
    eventually(lambda: len(list(tmp_path.glob("events-*.sqlite"))) == 3, 20.0, "a file for each day")
    assert archiver.drain()[0] == 0
    client("DEL", EVENTS)  # what Redis keeps of a day at most
    assert kept() == {"autumn", "winter", "today"}
    assert [one["msg_id"] for one in found(server, "--event-store", store, "--since", "110d", "--until", "60d")] == [
        "autumn"
    ]
    told = reach("trace", "autumn", "--event-store", store, "--json", REACH_REDIS_URL=server.url)
    assert json.loads(told.stdout)["records"] == 1, told.stderr
    archiver = start_worker("--roles", "archiver", "--event-store", store, "--event-days", "60").wait_ready()
    eventually(lambda: kept() == {"winter", "today"}, 60.0, "the oldest day gone, and no other")
    assert archiver.drain()[0] == 0


def test_tail_prints_what_comes_and_fits(server: PrivateServer, client: Wire) -> None:
    put(client, {"at_us": NOON_US, "point": "agent.completed", "code": "ok", "msg_id": "before"})
    with Process(
        "reach.cli", "tail", "--code", "ok", "--since", "60", "-o", "ndjson", "--redis-url", server.url
    ) as shown:
        assert json.loads(shown.first_line())["msg_id"] == "before"
        put(client, {"at_us": NOON_US + 1, "point": "agent.completed", "code": "handler.error", "msg_id": "no"})
        put(client, {"at_us": NOON_US + 2, "point": "agent.completed", "code": "ok", "msg_id": "after"})
        assert json.loads(shown.first_line())["msg_id"] == "after"
        shown.signal(signal.SIGINT)
        assert shown.wait()[0] == 130


def test_what_does_not_exist_is_told(server: PrivateServer, client: Wire, tmp_path: Path) -> None:
    put(client, {"at_us": NOON_US, "point": "agent.completed", "code": "ok", "msg_id": "m1", "type": "order"})

    def asked(*arguments: str) -> tuple[int, str]:
        done = reach(*arguments, REACH_REDIS_URL=server.url)
        assert done.stdout == b""
        return done.returncode, done.stderr.decode()

    for command in (("events", "search"), ("tail",)):
        status, said = asked(*command, "--point", "message.retired")
        assert status == 2
        assert "'message.retired' is no point: did you mean message.retried?; there are message.received, " in said
        assert all(point in said for point in ("capacity.wanted", "gap", "message.dead"))
    status, said = asked("events", "search", "--code", "handler.err0r", "--code", "our.own", "--code", "auth.odd")
    assert status == 1
    assert "no records fit in env dev, which keeps a day; --event-store names" in said
    assert "handler.err0r is no code of reach's own: did you mean handler.error? (docs/codes.md)" in said
    assert "our.own" not in said, "agents have codes of their own"
    assert "auth.odd" not in said
    status, said = asked("events", "search", "--type", "request1")
    assert status == 1
    assert "env dev has no message type request1: did you mean request? (reach types ls)" in said
    for command in (("events", "search"), ("trace", "m1"), ("explain", "m1")):
        status, said = asked(*command, "--event-store", f"sqlite:{tmp_path}/typo")
        assert status == 78
        assert f"event store {tmp_path}/typo: there is no such folder; an archiver makes and fills it" in said
    assert list(tmp_path.iterdir()) == []
    for beside in ("tail", "trace", "explain", "replay"):
        status, said = asked("events", beside, "--agent", "x")
        assert status == 2
        assert f"`reach events {beside}` is no command: `reach {beside}` " in said
    assert asked("events", "show", "tail")[0] == 1
