"""Real servers for the tests, and what every test must leave behind: nothing."""

import asyncio
import contextlib
import gc
import inspect
import time
from collections.abc import AsyncIterator, Generator, Iterator
from pathlib import Path
from typing import Any

import pytest
import redis
import redis.asyncio
import uvloop

from reach.backend.private_server import PrivateServer
from reach.errors import ConfigError
from tests import hygiene, servers
from tests.waiting import eventually

try:
    _ENGINES: list[str] = servers.selected()
    _NO_ENGINE = ""
except ConfigError as error:  # told by the first test that needs a server, so that the others still run
    _ENGINES = ["none"]
    _NO_ENGINE = error.message

_HERE = Path(__file__).parent

#: how long threads and connections may take to end after a test, in seconds
GRACE_S = 2.0

#: threads that belong to an event loop or an executor and end with it
_THREADS_OF_OTHERS = ("asyncio_", "ThreadPoolExecutor", "pytest", "Dummy", "execnet")


#: folders whose tests leave work in groups, and why; elsewhere a test says it itself, by the mark `leaves_work`
_LEAVES_WORK = {
    "contract": "steps by hand: what one has begun, no other one ends",
    "lua": "steps by hand: what one has begun, no other one ends",
    "faults": "who was killed, or lost its server, is a consumer until it is swept, 10 minutes later",
    "bugs": "who was killed, or takes by hand, is a consumer until it is swept, 10 minutes later",
}


#: what tells engines apart: the steps, on each of them whatever turns there are
_ON_EVERY_ENGINE = ("contract", "lua", "model", "property")


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport() -> Generator[None, Any, None]:
    """Half a character, as some tests log it, ends a worker of pytest-xdist: what was captured goes to the other process as UTF-8."""
    report = (yield).get_result()
    report.sections = [(name, text.encode("utf-8", "backslashreplace").decode()) for name, text in report.sections]
    if report.longrepr is not None:
        try:
            str(report.longrepr).encode()
        except UnicodeEncodeError:
            report.longrepr = str(report.longrepr).encode("utf-8", "backslashreplace").decode()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Excuse the folders that leave work behind; where turns are asked for, leave out what has its turn on another engine."""
    others = {item for item in items if isinstance(item, pytest.Function) and not _has_its_turn(item)}
    if others:
        config.hook.pytest_deselected(items=list(others))
        items[:] = [item for item in items if item not in others]
    for item in items:
        if item.path.is_relative_to(_HERE):
            why = _LEAVES_WORK.get(item.path.relative_to(_HERE).parts[0])
            if why is not None:
                item.add_marker(pytest.mark.leaves_work(why=why))


def _has_its_turn(item: pytest.Function) -> bool:
    if not hasattr(item, "callspec") or "engine" not in item.callspec.params or not item.path.is_relative_to(_HERE):
        return True
    if item.path.relative_to(_HERE).parts[0] in _ON_EVERY_ENGINE:
        return True
    return servers.has_its_turn(item.nodeid.partition("[")[0], str(item.callspec.params["engine"]), _ENGINES)


@pytest.fixture(scope="session", params=_ENGINES)
def engine(request: pytest.FixtureRequest) -> str:
    """Which engine this test runs on: "redis" or "valkey"."""
    if _NO_ENGINE:
        pytest.fail(_NO_ENGINE)
    assert isinstance(request.param, str)
    return request.param


@pytest.fixture(scope="session")
def session_server(engine: str) -> Iterator[PrivateServer]:
    """The server that the tests of one engine share; take `server` instead, which is empty."""
    with PrivateServer.start(binary=servers.binaries()[engine], extra_args=servers.TEST_OPTIONS) as started:
        yield started


@pytest.fixture
def server(session_server: PrivateServer, request: pytest.FixtureRequest) -> Iterator[PrivateServer]:
    """An empty server. Afterwards it may hold only keys of the key table and no work, and no connection may be left open."""
    if not session_server.running:
        session_server.restart()
    with redis.Redis.from_url(session_server.url) as client:
        client.flushall()
    yield session_server
    _look_over(session_server, request)


@pytest.fixture
def start_server(engine: str, request: pytest.FixtureRequest) -> Iterator[servers.StartServer]:
    """Starts servers that the test may kill, restart and configure (arguments as PrivateServer.start).

    One that still runs at the end is looked over like `server`, unless `unlooked` says why not.
    """
    with contextlib.ExitStack() as started:

        def start(
            *, aof: bool = False, port: int = 0, extra_args: tuple[str, ...] = (), unlooked: str = ""
        ) -> PrivateServer:
            one = PrivateServer.start(
                binary=servers.binaries()[engine], aof=aof, port=port, extra_args=(*servers.TEST_OPTIONS, *extra_args)
            )
            started.callback(one.stop)
            if not unlooked:
                started.callback(lambda: _look_over(one, request) if one.running else None)
            return one

        yield start


@pytest.fixture
def redis_url(server: PrivateServer) -> str:
    """The address of an empty server."""
    return server.url


@pytest.fixture
async def raw(server: PrivateServer) -> AsyncIterator[redis.asyncio.Redis]:
    """A plain client (bytes in, bytes out), for what another language would do by hand."""
    async with redis.asyncio.Redis.from_url(server.url, decode_responses=False) as client:
        yield client


@pytest.fixture(scope="session", autouse=True)
def libuv() -> None:
    """The first loop of libuv makes a pipe for signals that stays as long as the process: no test is to be blamed for it."""
    uvloop.new_event_loop().close()


@pytest.fixture(autouse=True)
def nothing_left(request: pytest.FixtureRequest) -> None:
    """No task, thread, child or descriptor outlives its test. Set up first, so that it looks when everything else has ended."""
    before = hygiene.ProcessState.now()  # what lasts a session, and may begin with this test, is there already
    # The node's own finalizer, and before the loop begins: a fixture's would be called while the loop is still there.
    request.node.addfinalizer(lambda: _look_at_process(before))
    if inspect.iscoroutinefunction(getattr(request, "function", None)):
        request.getfixturevalue("no_task_left")


@pytest.fixture
async def no_task_left() -> AsyncIterator[None]:
    """No asyncio task outlives its test."""
    yield
    left: list[asyncio.Task[object]] = []
    for _ in range(50):  # turns of the loop: what was cancelled needs a few to end
        left = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        if not left:
            return
        await asyncio.sleep(0)
    pytest.fail(f"tasks outlived the test: {left}")


def _look_at_process(before: hygiene.ProcessState) -> None:
    end = time.monotonic() + GRACE_S
    while left := before.left_since(_THREADS_OF_OTHERS):
        if time.monotonic() >= end:
            pytest.fail("\n".join(left))
        gc.collect()  # what nobody refers to any more may lie in a cycle
        time.sleep(0.01)


def _look_over(server: PrivateServer, request: pytest.FixtureRequest) -> None:
    faults = hygiene.look_over(server.url, request.node)
    assert not faults, "Redis holds what no test may leave:\n" + "\n".join(faults)
    with redis.Redis.from_url(server.url) as client:
        eventually(lambda: not _connections(client), GRACE_S, f"the end of every connection ({_connections(client)})")


def _connections(client: redis.Redis) -> list[str]:
    own = client.client_id()
    return [f"{row['addr']} {row['cmd']}" for row in client.client_list() if int(row["id"]) != own]
