"""The README runs: its Python as it stands (but for the address of the server), its commands where they can."""

import importlib.util
import json
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from random import Random
from types import ModuleType

import click
import pytest

from reach.backend.private_server import PrivateServer
from reach.cli import main
from reach.routing.strategies import STRATEGIES, Memory
from tests.e2e.conftest import StartWorker
from tests.e2e.pages import blocks, commands, named
from tests.e2e.plain import E, Wire
from tests.e2e.processes import Process, environ, free_port, reach
from tests.rules.files import ROOT, read
from tests.unit.routing import test_strategies
from tests.unit.routing.seen import message
from tests.waiting import eventually

pytestmark = pytest.mark.processes
PAGE = "README.md"


def block(part: str) -> str:
    """The one Python block with these words."""
    (found,) = [text for text in blocks(PAGE, "python") if part in text]
    return found


def run_text(text: str, url: str = "redis://localhost:6379") -> str:
    text = text.replace("redis://localhost:6379", url)
    done = subprocess.run(
        [sys.executable, "-"], input=text.encode(), env=environ(), capture_output=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode()


@pytest.fixture
def agent_file(tmp_path: Path) -> Path:
    path = tmp_path / "refund_agent.py"
    path.write_text(named(PAGE)["refund_agent.py"])
    return path


@pytest.fixture
def refund_agent(
    agent_file: Path, server: PrivateServer, start_worker: StartWorker, client: Wire
) -> Iterator[subprocess.Popen[bytes]]:
    start_worker().wait_ready()
    with subprocess.Popen([sys.executable, agent_file], env=environ(REACH_REDIS_URL=server.url)) as started:
        try:
            eventually(lambda: client("HLEN", f"{E}agents"), 20, "the agent")
            yield started
        finally:
            started.terminate()
            assert started.wait(20) == 0


def test_every_python_block_is_run_here() -> None:
    known = ("Reach.embedded(agent)", "SyncReach.connect(", "# refund_agent.py", "# cheapest.py")
    assert [part for part in known for _ in [block(part)]] == list(known)
    assert len(blocks(PAGE, "python")) == len(known)


def test_the_twenty_lines_print_what_they_promise() -> None:
    lines = run_text(block("Reach.embedded(agent)")).splitlines()
    assert lines == [
        "success {'refunded': 'ORD-1', 'attempt': 1}",
        "failed handler.rejected that is not an order id",
    ]


@pytest.mark.usefixtures("refund_agent")
def test_the_agent_answers_the_commands_and_the_program_without_a_loop(server: PrivateServer) -> None:
    (request,) = [command for command in commands(PAGE) if command.startswith("reach request")]
    done = reach(*shlex.split(request)[1:], REACH_REDIS_URL=server.url)
    assert json.loads(done.stdout) == {"refunded": "ORD-1", "attempt": 1}
    for body in ("{}", '{"order_id": null}', '{"order_id": 7}'):
        receipt = json.loads(
            reach(
                "request", "refund", body, "--schema", "refund.request.v1", "-o", "json", REACH_REDIS_URL=server.url
            ).stdout
        )
        assert (receipt["code"], receipt["details"]["reject"]) == ("handler.rejected", "no_such_order"), body
    assert b"refund-" in reach("agents", REACH_REDIS_URL=server.url).stdout
    assert run_text(block("SyncReach.connect("), server.url).splitlines()[-1] == "success"


def test_the_policy_is_set_as_the_page_says(server: PrivateServer, client: Wire) -> None:
    (chosen,) = [command for command in commands(PAGE) if command.startswith("reach routes set")]
    assert reach(*shlex.split(chosen)[1:], REACH_REDIS_URL=server.url).returncode == 0
    assert client("HGET", f"{E}routes", "capability:refund") == b'{"strategy": "round_robin"}'
    assert "round_robin" in STRATEGIES


def test_the_strategy_of_the_page_keeps_the_contract(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cheapest = module(tmp_path, named(PAGE)["cheapest.py"])
    monkeypatch.setitem(STRATEGIES, "cheapest", cheapest.select)
    for count in (1, 2, 7):
        test_strategies.test_the_contract("cheapest", count)
    test_strategies.test_the_same_chance_makes_the_same_choice("cheapest")
    found = (
        test_strategies.agents(2, cost=2.0) + test_strategies.agents(3, cost=1.0)[2:] + test_strategies.agents(4)[3:]
    )
    chosen = STRATEGIES["cheapest"](found, message(), test_strategies.view(), Memory(), Random(1)).chosen
    assert [agent.agent_id for agent in chosen] == ["a2"]


def module(directory: Path, text: str) -> ModuleType:
    path = directory / "cheapest.py"
    path.write_text(text)
    spec = importlib.util.spec_from_file_location("cheapest", path)
    assert spec is not None
    assert spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


def test_dev_is_enough_for_the_agent_and_the_commands(agent_file: Path) -> None:
    with Process("reach.cli", "dev", "--port", str(free_port())) as dev:
        url = dev.first_line()
        with subprocess.Popen([sys.executable, agent_file], env=environ(REACH_REDIS_URL=url)) as agent:
            try:
                body = ('{"order_id": "ORD-1"}', "--schema", "refund.request.v1", "--timeout", "20")
                assert reach("request", "capability:refund", *body, REACH_REDIS_URL=url).returncode == 0
            finally:
                agent.send_signal(signal.SIGINT)
                assert agent.wait(20) == 0
        dev.signal(signal.SIGINT)
        assert dev.wait()[0] == 130


def test_every_command_of_the_page_exists() -> None:
    targets = set(re.findall(r"^([a-z]+):", read("Makefile"), re.MULTILINE))
    spoken = re.findall(r"`((?:make|reach|reach-worker) [^`]+)`", re.sub(r"```.*?```", "", read(PAGE), flags=re.DOTALL))
    assert commands(PAGE)
    for command in [*commands(PAGE), *spoken]:
        words = shlex.split(command)
        if words[0] == "make":
            assert words[1] in targets, command
        elif words[0] == "reach" and "next version" not in read(PAGE).partition(f"`{command}`")[2][:40]:
            assert isinstance(main, click.Group)
            assert words[1] in main.commands, command


def test_every_file_that_the_page_names_is_there() -> None:
    links = re.findall(r"\]\(([^)#:]+)\)", read(PAGE))
    assert links
    assert [link for link in links if not (ROOT / link).exists()] == []


def test_the_agent_says_in_one_line_what_it_serves(
    agent_file: Path, server: PrivateServer, start_worker: StartWorker
) -> None:
    start_worker().wait_ready()
    with subprocess.Popen(
        [sys.executable, agent_file], env=environ(REACH_REDIS_URL=server.url), stderr=subprocess.PIPE
    ) as started:
        try:
            assert started.stderr is not None
            line = next(text for text in map(bytes.decode, started.stderr) if "serving" in text)
        finally:
            started.terminate()
            started.communicate(timeout=20)
    assert re.search(
        r"serving agent=refund-\S+ instance=\S+ env=dev url=redis://\S+ capabilities=refund$", line.strip()
    ), line
