"""docs/wire.md: its agent and its sender, as they stand on the page, against a worker."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from reach.backend.private_server import PrivateServer
from tests.e2e.conftest import StartWorker
from tests.e2e.pages import commands, named
from tests.e2e.plain import E, T, Wire
from tests.e2e.processes import environ, reach
from tests.waiting import eventually

pytestmark = [
    pytest.mark.processes,
    pytest.mark.leaves_work(why="the agent of the page is killed: it is a consumer until it is swept"),
]
PAGE = "docs/wire.md"


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    """A directory as the page's first commands leave it."""
    for name, text in named(PAGE).items():
        (tmp_path / name).write_text(text)
    for command in commands(PAGE):
        if command.startswith("reach "):
            arguments, _, target = command.removeprefix("reach ").partition(" > ")
            done = reach(*arguments.split())
            assert done.returncode == 0, command
            (tmp_path / target).write_bytes(done.stdout)
    return tmp_path


@contextmanager
def agent(programs: Path, url: str, way: str) -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, "plain_agent.py", way]
    variables = environ(REACH_REDIS_URL=url)
    with subprocess.Popen(command, cwd=programs, env=variables, stdout=subprocess.PIPE) as started:
        try:
            assert started.stdout is not None
            assert started.stdout.readline() == b"serving\n"
            yield started
        finally:
            started.kill()


def send(programs: Path, url: str, order_id: str) -> tuple[int, str]:
    command = [sys.executable, "plain_sender.py", order_id]
    variables = environ(REACH_REDIS_URL=url)
    done = subprocess.run(command, cwd=programs, env=variables, capture_output=True, timeout=40, check=False)
    return done.returncode, done.stdout.decode().strip() or done.stderr.decode()


@pytest.mark.parametrize(("way", "partitions"), [("by-entry", 1), ("by-script", 1), ("by-entry", 3), ("by-script", 3)])
def test_the_page_s_agent_answers_the_page_s_sender(
    programs: Path, server: PrivateServer, client: Wire, start_worker: StartWorker, way: str, partitions: int
) -> None:
    client("HSET", f"{E}meta", "partitions", partitions)
    start_worker().wait_ready()
    with agent(programs, server.url, way):
        for _ in range(partitions):  # each in a partition that its msg_id chooses
            assert send(programs, server.url, "ORD-1") == (0, 'success ok {"refunded": "ORD-1"}')
        assert send(programs, server.url, "?") == (1, "failed handler.rejected null that is not an order id")
        held = [client("XLEN", f"reach:{{dev.{p}}}:inbox:plain-refund:normal") for p in range(partitions)]
        assert held == [0] * partitions


def test_the_page_s_agent_beats_and_renews(
    programs: Path, server: PrivateServer, client: Wire, start_worker: StartWorker
) -> None:
    start_worker().wait_ready()
    agent_file = programs / "plain_agent.py"
    text = agent_file.read_text().replace("time.sleep(5)", "time.sleep(0.05)")
    # Work that waits for a key: the test ends it.
    text = text.replace("def refund(body):\n", 'def refund(body):\n    r.blpop("reach:{dev.0}:line:go", 30)\n')
    agent_file.write_text(text)
    with agent(programs, server.url, "by-script"):
        command = [sys.executable, "plain_sender.py", "ORD-1"]
        variables = environ(REACH_REDIS_URL=server.url)
        with subprocess.Popen(command, cwd=programs, env=variables, stdout=subprocess.PIPE) as sender:
            key = f"{T}inbox:plain-refund:normal"

            def delivered() -> int:
                pending = client("XPENDING", key, "agent", "-", "+", 1)
                return int(pending[0][2]) if pending else -1

            eventually(lambda: delivered() >= 0, 10, "the work is taken")
            idle_before = client("ZRANGE", f"{E}beats", 0, -1, "WITHSCORES")
            eventually(lambda: client("ZRANGE", f"{E}beats", 0, -1, "WITHSCORES") != idle_before, 10, "a beat")
            ages = [delivered()]

            def younger() -> bool:
                ages.append(delivered())
                return 0 <= ages[-1] < ages[-2]

            eventually(younger, 10, "it is renewed")
            client("RPUSH", f"{T}line:go", "1")
            out, _ = sender.communicate(timeout=20)
            assert out.decode().strip() == 'success ok {"refunded": "ORD-1"}'
        client("HDEL", f"{E}agents", "plain-refund")
        eventually(lambda: client("HEXISTS", f"{E}agents", "plain-refund"), 10, "it registers again")
