"""How the commands behave where something is missing, taken, hostile or interrupted."""

import json
import os
import pty
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner

from reach.backend.private_server import PrivateServer
from reach.cli import main
from tests.e2e.conftest import StartWorker
from tests.e2e.plain import PlainAgent, T, Wire
from tests.e2e.processes import Process, environ, free_port, reach, run
from tests.waiting import eventually

pytestmark = pytest.mark.processes
HOSTILE = "\x1b]0;owned\x07\x1b[2J"
NOBODY = "no worker serves env dev at redis://"


def test_nobody_serving_is_said_once_and_waited_for(server: PrivateServer, start_worker: StartWorker) -> None:
    done = reach("request", "capability:x", "--timeout", "3", REACH_REDIS_URL=server.url)
    assert (done.returncode, done.stderr.decode().count(NOBODY)) == (75, 1)
    assert NOBODY in reach("agents", REACH_REDIS_URL=server.url).stderr.decode()
    text = "import reach; a = reach.Agent('a'); a.capability('x')(lambda body: body); a.run()"
    with subprocess.Popen(
        [sys.executable, "-c", text], env=environ(REACH_REDIS_URL=server.url), stderr=subprocess.PIPE
    ) as agent:
        try:
            assert agent.stderr is not None
            assert NOBODY in agent.stderr.readline().decode()
        finally:
            agent.terminate()
            agent.wait(20)
    start_worker().wait_ready()
    assert NOBODY not in reach("agents", REACH_REDIS_URL=server.url).stderr.decode()


def test_what_others_have_written_does_not_reach_the_terminal(
    server: PrivateServer, client: Wire, start_worker: StartWorker
) -> None:
    start_worker().wait_ready()
    agent = PlainAgent(client, "plain-refund")
    agent.register("refund")
    with Process("reach.cli", "request", "refund", REACH_REDIS_URL=server.url) as asking:
        hand, fields = agent.take()
        agent.answer_by_entry(fields, hand, {"status": "failed", "error_message": HOSTILE})
        status, out, err = asking.wait()
    assert (status, out) == (1, "")
    assert "\x1b" not in err
    assert "\\x1b]0;owned\\x07" in err
    for as_file in (True, False):
        with on_terminal("request", "refund", url=server.url, as_file=as_file) as read:
            hand, fields = agent.take()
            agent.answer_by_entry(fields, hand, {"status": "success", "output": HOSTILE})
            printed = read()
        assert (HOSTILE in printed) is as_file
        assert "owned" in printed


@contextmanager
def on_terminal(*arguments: str, url: str, as_file: bool) -> Iterator[Callable[[], str]]:
    """Run a command with its stdout on a terminal, or in a pipe."""
    ours, theirs = os.pipe() if as_file else pty.openpty()
    command = [sys.executable, "-m", "reach.cli", *arguments]
    child = subprocess.Popen(command, env=environ(REACH_REDIS_URL=url), stdout=theirs, stdin=subprocess.DEVNULL)
    os.close(theirs)

    def read() -> str:
        found = b""
        while True:
            try:
                part = os.read(ours, 4096)
            except OSError:  # a terminal that nobody holds any more
                part = b""
            if not part:
                return found.decode()
            found += part

    try:
        yield read
    finally:
        child.kill()
        child.wait()
        os.close(ours)


def test_dev_ends_with_its_server() -> None:
    with Process("reach.cli", "dev", "--port", "0") as dev:
        url = dev.first_line()
        with Wire(url) as client:
            pid = int(re.search(rb"process_id:(\d+)", client("INFO", "server"))[1])  # type: ignore[index]
        os.kill(pid, signal.SIGKILL)
        status, _, err = dev.wait()
    assert status == 69
    assert "the server ended" in err
    assert f"export REACH_REDIS_URL={url}" in err


def test_dev_says_in_one_line_that_a_port_is_taken_or_an_address_dead(server: PrivateServer) -> None:
    taken = reach("dev", "--port", str(server.port))
    assert (taken.returncode, taken.stderr.decode()) == (
        69,
        f"reach: port {server.port} is taken: choose another with --port, 0 for any that is free\n",
    )
    dead = reach("dev", "--redis-url", f"redis://127.0.0.1:{free_port()}")
    assert dead.returncode == 69
    assert (dead.stdout, b"serve" in dead.stderr) == (b"", False)


@pytest.mark.parametrize("by_option", [True, False])
def test_dev_says_whose_server_it_uses_where_it_starts_none(server: PrivateServer, by_option: bool) -> None:
    said, variables = (("--redis-url", server.url), {}) if by_option else ((), {"REACH_REDIS_URL": server.url})
    with Process("reach.cli", "dev", *said, **variables) as dev:
        assert dev.first_line() == server.url
        dev.signal(signal.SIGTERM)
        status, _, err = dev.wait()
    assert status == 0
    name = "--redis-url" if by_option else "REACH_REDIS_URL"
    assert f"this is the server of {name}: reach dev starts none and leaves it running\n" in err


@pytest.mark.parametrize("command", [("agents",), ("request", "x"), ("dev",), ("events",)])
def test_memory_is_refused_with_a_sentence(command: tuple[str, ...]) -> None:
    for done in (reach(*command, REACH_REDIS_URL="memory://x"), run("reach_worker", REACH_REDIS_URL="memory://x")):
        assert done.returncode == 78
        assert "memory:// lives inside one process" in done.stderr.decode()


@pytest.mark.parametrize("command", ["send", "request"])
@pytest.mark.parametrize("option", ["--delay", "--timeout", "--ttl"])
@pytest.mark.parametrize("seconds", ["nan", "inf", "1e300", "604801", "-1", "soon"])
def test_seconds_that_are_none_are_wrong_usage(command: str, option: str, seconds: str) -> None:
    done = CliRunner().invoke(main, [command, "x", option, seconds])
    assert (done.exit_code, done.stdout) == (2, "")
    *_, last = done.stderr.splitlines()
    assert last.startswith(f"Error: Invalid value for '{option}': ")
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    "option", [("--budget-hops", "-1"), ("--budget-hops", "1.5"), ("--budget-cost", "nan"), ("--budget-cost", "inf")]
)
def test_a_budget_that_is_none_is_wrong_usage(option: tuple[str, str]) -> None:
    done = CliRunner().invoke(main, ["request", "x", *option])
    assert (done.exit_code, done.stdout) == (2, "")
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("option", "told"),
    [
        (("--needs", "tier"), "no NAME=VALUE"),
        (("--needs", "colour=red"), "context_tokens and tier"),
        (("--needs", "context_tokens=many"), "context_tokens is 'many'"),
        (("--header", "=x"), "no NAME=VALUE"),
        (("--not-before", "soon"), "no moment"),
        (("--not-before", "2026-12-01T08:00:00"), "no time zone"),
        (("--not-before", "1", "--delay", "1"), "one is wanted"),
    ],
)
def test_what_a_message_cannot_say_is_wrong_usage(option: tuple[str, ...], told: str) -> None:
    done = CliRunner().invoke(main, ["send", "x", *option])
    assert (done.exit_code, done.stdout) == (2, "")
    assert told in done.stderr


def test_the_help_names_the_longest_delay() -> None:
    assert "at most seven days" in " ".join(CliRunner().invoke(main, ["send", "--help"]).stdout.split())


def test_an_endless_body_is_not_read_to_its_end() -> None:
    done = reach("request", "x", "@/dev/zero")
    assert done.returncode == 2
    assert "the body has more than" in done.stderr.decode()


def test_events_of_nobody_are_a_failure_and_records_have_a_date(server: PrivateServer, client: Wire) -> None:
    done = reach("events", "nosuch", REACH_REDIS_URL=server.url)
    assert (done.returncode, done.stdout) == (1, b"")
    assert "no records of nosuch" in done.stderr.decode()
    record = {"at_us": 1_700_000_000_000_000, "point": HOSTILE, "msg_id": "m"}
    client("XADD", f"{T}events", "*", "b", json.dumps([record]), "v", "1")
    line = reach("events", "m", REACH_REDIS_URL=server.url).stdout.decode()
    assert line.startswith("2023-11-14 22:13:20.000")
    assert "\x1b" not in line


def test_ctrl_c_while_a_worker_is_loaded_is_no_traceback() -> None:
    for wait_ms in (60, 120, 200):
        with Process("reach_worker", "run", "--redis-url", f"redis://127.0.0.1:{free_port()}") as worker:
            with pytest.raises(subprocess.TimeoutExpired):
                worker.wait(wait_ms / 1000)
            worker.signal(signal.SIGINT)
            status, _, err = worker.wait()
        assert status in {0, -signal.SIGINT, 130}
        assert "Traceback" not in err


def test_ctrl_c_ends_the_demo_with_130() -> None:
    with Process("reach.cli", "demo") as demo:
        eventually(demo.first_line, 30, "it began")
        demo.signal(signal.SIGINT)
        status, _, err = demo.wait(40)
    assert (status, "Aborted" in err) == (130, False)


def test_the_demo_tells_its_options_from_anywhere(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "reach.cli", "demo", "--help"],
        cwd=tmp_path, env=environ(), capture_output=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0
    assert b"--ask" in done.stdout
