"""SyncReach on real servers: from a program without a loop, through Ctrl-C, a fork, and a server that freezes."""

import asyncio
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest
import redis

from reach import Agent, Context, SyncReach
from reach.backend.private_server import PrivateServer
from tests.e2e.processes import environ
from tests.integration.sdk.world import ROOT, router
from tests.servers import StartServer
from tests.waiting import eventually

PROGRAM = """
import sys
from reach import SyncReach
with SyncReach.connect(sys.argv[1], agent_id="program") as reach:
    print(reach.ask("echo", "hello"), flush=True)
    reach.request("hang")
"""
FORKING = """
import multiprocessing, sys
from reach import ConfigError, SyncReach

def child(reach, url):
    try:
        reach.ask("echo", 1)
    except ConfigError as error:
        print(error.code, flush=True)
    with SyncReach.connect(url) as own:
        print(own.ask("echo", "child"), flush=True)

with SyncReach.connect(sys.argv[1]) as reach:
    reach.ask("echo", 0)
    process = multiprocessing.get_context("fork").Process(target=child, args=(reach, sys.argv[1]))
    process.start()
    process.join()
    print(reach.ask("echo", "parent"), process.exitcode, flush=True)
"""


@contextmanager
def served(url: str) -> Iterator[threading.Event]:
    """A router and an agent in a thread with a loop of its own; the event is set when something hangs."""
    hangs, ready, end = threading.Event(), threading.Event(), asyncio.Event()
    agent = Agent("worker", concurrency=32)
    loops: list[asyncio.AbstractEventLoop] = []

    @agent.capability("echo")
    async def echo(body: Any, ctx: Context) -> Any:
        return body

    @agent.capability("hang")
    async def hang(ctx: Context) -> None:
        hangs.set()
        await asyncio.Event().wait()

    async def serve() -> None:
        async with router(url), agent.running(url, grace=0):
            loops.append(asyncio.get_running_loop())
            ready.set()
            await end.wait()

    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    try:
        assert ready.wait(10)
        yield hangs
    finally:
        loops[0].call_soon_threadsafe(end.set)
        thread.join(20)


def test_threads_share_a_client(redis_url: str) -> None:
    with served(redis_url), SyncReach.connect(redis_url, agent_id="asker") as reach, ThreadPoolExecutor(8) as pool:
        assert list(pool.map(lambda n: reach.ask("capability:echo", n), range(200))) == list(range(200))
        handles = list(pool.map(lambda n: reach.send("capability:echo", n), range(20)))
        assert [handle.receipt(5).output for handle in handles] == list(range(20))
        assert [r.output for r in reach.gather(["echo"] * 20, "x").receipts(5)] == ["x"] * 20
        assert reach.outstanding == 0


def connections(client: redis.Redis) -> set[str]:
    """Those of the program: it says its name to the server."""
    return {row["addr"] for row in client.client_list() if row["name"] == "program"}


def test_ctrl_c_ends_a_program_and_leaves_nothing(redis_url: str, server: PrivateServer) -> None:
    with served(redis_url) as hangs, redis.Redis.from_url(redis_url) as client:
        program = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, f"{redis_url}?client_name=program"],
            env=environ(),
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            assert hangs.wait(20)
            assert connections(client)
            began = time.monotonic()
            program.send_signal(signal.SIGINT)
            out, err = program.communicate(timeout=10)
        finally:
            program.kill()
            program.wait()
        assert time.monotonic() - began < 8
        assert out == "hello\n"
        assert err.strip().splitlines()[-1] == "KeyboardInterrupt"
        assert "never awaited" not in err
        assert "destroyed" not in err
        assert program.returncode == -signal.SIGINT
        eventually(lambda: not connections(client), what="the end of its connections")
        assert not list(client.scan_iter("reach:{dev.*}:mail:program*"))


@pytest.mark.parametrize("ends", [True, False])
def test_a_program_that_does_not_close_ends_all_the_same(redis_url: str, server: PrivateServer, ends: bool) -> None:
    text = "import sys\nfrom reach import SyncReach\nreach = SyncReach.connect(sys.argv[1])\n"
    text += "print(reach.agent_id)\n" if ends else "raise SystemExit(3)\n"
    done = subprocess.run(
        [sys.executable, "-c", text, redis_url], env=environ(), cwd=ROOT, capture_output=True, timeout=20, check=False
    )
    assert (done.returncode, done.stderr) == (0 if ends else 3, b"")


def test_a_forked_child_opens_its_own(redis_url: str, server: PrivateServer) -> None:
    with served(redis_url):
        done = subprocess.run(
            [sys.executable, "-c", FORKING, redis_url],
            env=environ(),
            cwd=ROOT,
            capture_output=True,
            timeout=30,
            check=False,
            text=True,
        )
    assert done.stdout.splitlines() == ["config.forked", "child", "parent 0"], done.stderr
    assert done.returncode == 0


def test_a_frozen_server_holds_up_neither_a_call_nor_the_end(start_server: StartServer) -> None:
    server = start_server()
    reach = SyncReach.connect(server.url)
    os.kill(server.pid, signal.SIGSTOP)
    try:
        began = time.monotonic()
        assert reach.request("capability:echo", timeout=0.5).code == "timeout.total"
        assert time.monotonic() - began < 4
        began = time.monotonic()
        reach.close()
        assert time.monotonic() - began < 10
    finally:
        os.kill(server.pid, signal.SIGCONT)
    assert not [thread for thread in threading.enumerate() if thread.name == "reach-sync"]


def test_a_server_that_comes_back_is_used_again(start_server: StartServer) -> None:
    server = start_server()
    with SyncReach.connect(server.url) as reach:
        with served(server.url):
            assert reach.ask("capability:echo", 1) == 1
        server.kill()
        assert reach.request("capability:echo", timeout=0.2).code == "timeout.total"
        server.restart()
        with served(server.url):
            assert eventually(lambda: reach.request("capability:echo", 2, timeout=2).ok, 20)
