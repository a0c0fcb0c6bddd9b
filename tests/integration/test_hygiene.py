"""The looks at what a test leaves behind must be able to fail."""

from pathlib import Path

import pytest
import redis

from reach.backend.keys import TABLE
from tests import hygiene
from tests.servers import StartServer, selected

pytest_plugins = ["pytester"]

MSG = "0192f0c1-4c5e-7b1a-9d2e-1a2b3c4d5e6f"


@pytest.mark.parametrize(
    ("key", "kind", "pttl_ms", "says"),
    [
        ("reach:{dev.0}:again", "stream", -1, None),
        (f"reach:{{dev.12}}:m:{MSG}", "string", 60_000, None),
        (f"reach:{{dev.0}}:m:{MSG}", "hash", 60_000, None),
        ("reach:{dev}:agents", "hash", -1, None),
        ("reach:{dev.0}:inbox:refund-01:high", "stream", -1, None),
        ("reach:{dev.0}:inbox:refund-01:urgent", "stream", -1, "no row"),
        ("reach:{dev}:again", "stream", -1, "no row"),
        ("reach:{dev.0}:agents", "hash", -1, "no row"),
        ("foo", "string", -1, "no row"),
        (f"reach:{{dev.0}}:m:{MSG}", "list", 60_000, "is a list"),
        (f"reach:{{dev.0}}:m:{MSG}", "string", -1, "never expires"),
        (f"reach:{{dev.0}}:m:{MSG}x", "string", 60_000, "no row"),
        ("reach:{dev.0}:due", "zset", 500, "expires in 500 ms"),
    ],
)
def test_each_fault_of_a_key_is_seen(key: str, kind: str, pttl_ms: int, says: str | None) -> None:
    fault = hygiene.fault_of(key, kind, pttl_ms)
    assert (fault is None) if says is None else (fault is not None and says in fault)


def test_no_two_rows_allow_the_same_name() -> None:
    names = {
        row.pattern.replace("{T}", "{dev.0}").replace("{E}", "{dev}").replace("<lane>", "low").replace("<msg_id>", MSG)
        for row in TABLE
    }
    for name in names:
        sample = name.replace("<", "").replace(">", "")
        assert len([row for row in TABLE if hygiene.pattern_of(row).fullmatch(sample)]) == 1, sample


def test_the_walk_finds_foreign_keys_on_a_real_server(start_server: StartServer) -> None:
    server = start_server(unlooked="what is looked for is there")
    with redis.Redis.from_url(server.url) as client:
        client.set("reach:{dev.0}:tock", "1")
        client.set(f"reach:{{dev.0}}:env:{MSG}", "{}")
        client.set(b"\xff\xfe", "1", px=50_000)
        client.xadd("reach:{dev.0}:again", {"m": MSG})
    assert sorted(hygiene.walk(server.url)) == [
        "\\xff\\xfe: no row of the key table",
        f"reach:{{dev.0}}:env:{MSG}: never expires, the table says: until terminal, else as the record",
        "reach:{dev.0}:tock: no row of the key table",
    ]
    assert hygiene.walk(server.url, [r".*:tock", r"\\xff.*", r".*:env:.*"]) == []


def test_what_is_left_in_groups_is_seen(start_server: StartServer) -> None:
    server = start_server(unlooked="what is looked for is there")
    with redis.Redis.from_url(server.url) as client:
        client.xgroup_create("reach:{dev.0}:again", "routers", id="0", mkstream=True)
        assert hygiene.work_left(server.url) == []
        client.xadd("reach:{dev.0}:again", {"m": MSG})
        assert hygiene.work_left(server.url) == []  # it is nobody's
        client.xgroup_createconsumer("reach:{dev.0}:again", "routers", "w1")
        assert hygiene.work_left(server.url) == ["reach:{dev.0}:again: w1 is a consumer of routers still"]
        client.xreadgroup("routers", "w2", {"reach:{dev.0}:again": ">"})
    assert sorted(hygiene.work_left(server.url)) == [
        "reach:{dev.0}:again: 1 entries are pending to w2 in routers",
        "reach:{dev.0}:again: w1 is a consumer of routers still",
    ]


LEAVING = """
import asyncio, os, socket, subprocess, threading, redis, pytest

async def test_task():
    asyncio.get_running_loop().pin = asyncio.ensure_future(asyncio.sleep(60))

def test_thread():
    threading.Thread(target=threading.Event().wait, name="left", daemon=True).start()

kept = []
def test_connection(redis_url):
    kept.append(redis.Redis.from_url(redis_url))
    kept[0].ping()

def test_key(redis_url):
    kept.clear()
    with redis.Redis.from_url(redis_url) as client:
        client.set("foreign", "1")

def test_socket():
    kept.append(socket.socket())

def test_file():
    kept.append(os.open(os.devnull, os.O_RDONLY))

def test_child():
    kept.append(subprocess.Popen(["sleep", "30"]))

def test_dead_child():
    kept[-1].kill()
    kept[-1].wait()
    pid = os.spawnlp(os.P_NOWAIT, "true", "true")
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)

def test_consumer(redis_url):
    with redis.Redis.from_url(redis_url) as client:
        client.xgroup_create("reach:{dev.0}:again", "routers", mkstream=True)
        client.xgroup_createconsumer("reach:{dev.0}:again", "routers", "w1")

def test_pending(redis_url):
    with redis.Redis.from_url(redis_url) as client:
        client.xadd("reach:{dev.0}:again", {"m": "x"})
        client.xgroup_create("reach:{dev.0}:again", "routers", id="0")
        client.xreadgroup("routers", "w1", {"reach:{dev.0}:again": ">"})

@pytest.mark.leaves("foreign")
@pytest.mark.leaves_work()
def test_reason(redis_url):
    with redis.Redis.from_url(redis_url) as client:
        client.set("foreign", "1")

@pytest.mark.leaves("foreign", why="it is looked at")
@pytest.mark.leaves_work(why="it is looked at")
async def test_clean(raw):
    await raw.set("foreign", "1")
    await raw.xgroup_create("reach:{dev.0}:again", "routers", mkstream=True)
    await raw.xgroup_createconsumer("reach:{dev.0}:again", "routers", "w1")
    await asyncio.create_task(asyncio.sleep(0))
    await asyncio.to_thread(subprocess.run, ["true"])
"""


def test_whatever_is_left_behind_fails_its_test(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REACH_TEST_SERVERS", selected()[0])
    pytester.makeconftest("import tests.conftest\nfrom tests.conftest import *\ntests.conftest.GRACE_S = 0.2")
    pytester.makepyfile(LEAVING)
    ini = {
        "pythonpath": Path(__file__).parents[2],
        "asyncio_mode": "auto",
        "asyncio_default_fixture_loop_scope": "function",
        "addopts": "-p no:valkey",
        "markers": "leaves: own keys\n    leaves_work: own work",
    }
    pytester.makeini("\n".join(["[pytest]", *(f"{name} = {value}" for name, value in ini.items())]))
    result = pytester.runpytest_subprocess()
    result.assert_outcomes(passed=12, errors=11)
    result.stdout.fnmatch_lines_random(
        [
            "*tasks outlived the test*",
            "*the thread left outlived the test*",
            "*the end of every connection*",
            "*foreign: no row of the key table*",
            "*the descriptor * (socket *) outlived the test*",
            "*the descriptor * (device /dev/null) outlived the test*",
            "*the child * (sleep 30 ) outlived the test*",
            "*the child * () outlived the test*",
            "*w1 is a consumer of routers still*",
            "*1 entries are pending to w1 in routers*",
            "*: leaves does not say why=*",
            "*: leaves_work does not say why=*",
        ]
    )
