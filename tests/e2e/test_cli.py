"""`reach` from outside: every command, its output and its exit status."""

import json
import os
import signal
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import redis

from reach import Agent, Context, Reject
from reach.backend.keys import KeySpace
from reach.backend.private_server import PrivateServer
from reach.testing import wait_until
from tests.e2e.conftest import StartWorker
from tests.e2e.processes import Process, free_port, reach
from tests.waiting import eventually

pytestmark = pytest.mark.processes


def refund_agent() -> Agent:
    agent = Agent("refund-1", concurrency=2)

    @agent.capability("refund", schema="refund.request.v1")
    async def refund(body: Any, _ctx: Context) -> Any:
        if body == "no":
            raise Reject("no_such_order", "there is no such order")
        return {"refunded": body}

    @agent.capability("echo")
    async def echo(body: Any, _ctx: Context) -> Any:
        return body

    @agent.capability("breaks")
    async def breaks(_body: Any, _ctx: Context) -> Any:
        raise ValueError("it breaks")

    return agent


@pytest.fixture
async def place(server: PrivateServer, start_worker: StartWorker) -> AsyncIterator[str]:
    """The address of a server with a worker and an agent."""
    start_worker().wait_ready()
    async with refund_agent().running(url=server.url):
        yield server.url


async def call(url: str, *arguments: str, stdin: bytes | None = None) -> "subprocess.CompletedProcess[bytes]":
    """Run a command beside the agent, which lives in this loop."""
    import asyncio

    return await asyncio.to_thread(reach, *arguments, stdin=stdin, REACH_REDIS_URL=url)


async def test_request_prints_the_output_or_the_receipt(place: str, tmp_path: Path) -> None:
    done = await call(place, "request", "capability:refund", '{"order_id": "ORD-1"}', "--schema", "refund.request.v1")
    assert done.returncode == 0
    assert json.loads(done.stdout) == {"refunded": {"order_id": "ORD-1"}}
    assert done.stderr == b""

    (tmp_path / "body.json").write_text("[1, 2]")
    done = await call(place, "request", "refund", f"@{tmp_path}/body.json", "-o", "json")
    receipt = json.loads(done.stdout)
    assert (receipt["status"], receipt["output"], receipt["target_agent"]) == (
        "success",
        {"refunded": [1, 2]},
        "refund-1",
    )

    done = await call(place, "request", "refund", "-", "--key", "order 17", "-o", "json", stdin=b'"from stdin"')
    first = json.loads(done.stdout)
    assert (first["output"], first["task_id"]) == ({"refunded": "from stdin"}, "order 17")
    done = await call(place, "request", "refund", "-", "--key", "order 17", "-o", "json", stdin=b'"from stdin"')
    assert (json.loads(done.stdout)["msg_id"], json.loads(done.stdout)["stored"]) == (first["msg_id"], True)

    done = await call(place, "request", "echo", "in a line", "--order-key", "order 17")
    assert done.stdout == b"in a line\n"

    spent = ("--correlation-id", "conv 1", "--budget-hops", "0", "--budget-cost", "0.5")
    codes = [
        json.loads((await call(place, "request", "echo", "again", *spent, "-o", "json")).stdout)["code"]
        for _ in range(2)
    ]
    assert codes == ["ok", "budget.exceeded"]

    done = await call(place, "request", "echo", "just a text", "--delay", "0.5")
    assert done.stdout == b"just a text\n"


async def test_a_failure_is_told_on_stderr_and_by_the_status(place: str) -> None:
    done = await call(place, "request", "refund", '"no"')
    assert (done.returncode, done.stdout) == (1, b"")
    assert "handler.rejected" in done.stderr.decode()
    done = await call(place, "request", "capability:nobody.has.it", "--timeout", "5", "-o", "json")
    assert done.returncode == 1
    assert json.loads(done.stdout)["code"] == "route.not_found"
    assert (await call(place, "request", "capability:UPPER")).returncode == 1
    for arguments in (
        ("request", "refund", '{"a"'),
        ("request", "refund", "@/no/such/file"),
        ("request",),
        ("nonsense",),
    ):
        assert (await call(place, *arguments)).returncode == 2
    assert (await call(place, "request", "refund", "--priority", "11")).returncode == 2
    done = await call(place, "send", "refund", "--order-key", "")
    assert (done.returncode, b"order_key" in done.stderr) == (2, True)


async def test_send_prints_the_id_and_the_events_tell_its_way(place: str) -> None:
    done = await call(place, "send", "refund", "5")
    assert done.returncode == 0
    msg_id = done.stdout.decode().strip()

    async def points() -> list[str]:
        told = await call(place, "events", msg_id, "-o", "ndjson")
        return [json.loads(line)["point"] for line in told.stdout.splitlines()]

    wanted = [
        "message.received",
        "route.matched",
        "route.sent",
        "agent.received",
        "agent.responding",
        "agent.completed",
    ]

    async def whole() -> bool:
        # Moments of two processes agree to less than a ms, which a fast hop may undercut: the order is judged within each process.
        told = await points()
        by_router = [point for point in told if point in wanted[:3]]
        by_agent = [point for point in told if point in wanted[3:]]
        return by_router + by_agent == wanted

    await wait_until(whole, timeout=30, what="the way of the message")
    told = await call(place, "events", msg_id)
    assert told.stdout.decode().count(msg_id) >= 6


async def test_dead_letters_are_listed_and_shown(place: str) -> None:
    # no second run fits: the first pause is 0.8 s at least
    refused = await call(place, "request", "breaks", "5", "--timeout", "0.75", "-o", "json")
    assert refused.returncode == 75
    receipt = json.loads(refused.stdout)
    assert (receipt["code"], receipt["attempts"]) == ("handler.error", 1)
    (listed,) = json.loads((await call(place, "dead", "ls", "-o", "json")).stdout)
    assert (listed["msg_id"], listed["id"]) == (receipt["msg_id"], receipt["details"]["dead_letter"])
    for name in (listed["id"], listed["msg_id"]):
        shown = json.loads((await call(place, "dead", "show", name)).stdout)
        assert shown["envelope"]["payload"]["body"] == 5
        assert [attempt["code"] for attempt in shown["history"]] == ["handler.error"]
    assert (await call(place, "dead", "show", "1-1")).returncode == 1
    assert "handler.error" in (await call(place, "dead", "ls")).stdout.decode()
    assert (await call(place, "dead", "ls", "--env", "staging")).stdout == b""


async def test_dead_letters_are_requeued_and_purged(place: str) -> None:
    for body in ("5", "6"):
        await call(place, "request", "breaks", body, "--timeout", "0.75")
    first, second = json.loads((await call(place, "dead", "ls", "-o", "json")).stdout)
    assert (await call(place, "dead", "requeue")).returncode == 2
    assert (await call(place, "dead", "requeue", first["id"], "--all")).returncode == 2
    assert (await call(place, "dead", "requeue", first["id"], "--to", "capability:UPPER")).returncode == 2
    done = await call(place, "dead", "requeue", first["id"], "1-1", "--to", "capability:echo")
    assert done.returncode == 1
    assert "goes on without its guards" in done.stderr.decode()
    assert done.stderr.endswith(b"reach: no dead letter 1-1\n")
    entry_id, msg_id, round_ = done.stdout.split()
    assert (entry_id.decode(), round_) == (first["id"], b"1")

    async def ran() -> bool:
        return b"agent.completed" in (await call(place, "events", msg_id.decode())).stdout

    await wait_until(ran, timeout=30, what="the run of what was requeued")
    (left,) = json.loads((await call(place, "dead", "ls", "-o", "json")).stdout)
    assert left["id"] == second["id"]
    assert (await call(place, "dead", "purge", "--older-than", "1d")).stderr == b"0 purged\n"
    assert (await call(place, "dead", "purge", "--older-than", "soon")).returncode == 2
    assert (await call(place, "dead", "purge", second["msg_id"])).stderr == b"1 purged\n"
    assert (await call(place, "dead", "ls", "-o", "json")).stdout == b"[]\n"


async def test_of_one_piece_of_work_the_letter_of_the_last_round_alone_is_requeued(place: str) -> None:
    """Each round that ended retryable has left one, and a msg_id names them all: sent to somebody else, all of them would run."""
    for _ in range(3):
        await call(place, "request", "breaks", "5", "--max-attempts", "1", "--key", "K")
    letters = json.loads((await call(place, "dead", "ls", "-o", "json")).stdout)
    assert len({letter["msg_id"] for letter in letters}) == 1 < len(letters)
    done = await call(place, "dead", "requeue", letters[0]["msg_id"], "--to", "echo")
    ((entry_id, _, _),) = [line.split() for line in done.stdout.decode().splitlines()]
    assert entry_id == letters[-1]["id"]
    assert f"{len(letters) - 1} letters of earlier rounds" in done.stderr.decode()
    assert (await call(place, "dead", "purge", "--all")).returncode == 0


async def test_a_letter_that_is_junk_stays_and_holds_up_nothing(place: str) -> None:
    with redis.Redis.from_url(place, decode_responses=True) as raw:
        junk = raw.xadd(KeySpace("dev").dead(0), {"m": "", "e": "junk", "r": "", "h": "[]"})
    await call(place, "request", "breaks", "5", "--timeout", "0.75")
    done = await call(place, "dead", "requeue", "--all", "--to", "capability:echo")
    assert done.returncode == 1
    assert done.stderr.startswith(f"reach: {junk} cannot be sent: ".encode())
    assert len(done.stdout.splitlines()) == 1
    assert [letter["id"] for letter in json.loads((await call(place, "dead", "ls", "-o", "json")).stdout)] == [junk]


async def test_agents_lists_who_is_there(place: str) -> None:
    done = await call(place, "agents", "-o", "json")
    (found,) = json.loads(done.stdout)
    assert (found["agent_id"], found["state"], found["alive"]) == ("refund-1", "ready", 1)
    assert found["capabilities"] == ["breaks", "echo", "refund"]
    table = (await call(place, "agents")).stdout.decode().splitlines()
    assert table[0].split() == ["AGENT", "STATE", "INSTANCES", "FREE", "ZONE", "CAPABILITIES"]
    assert table[1].split() == ["refund-1", "ready", "1/1", "2", "-", "breaks", "echo", "refund"]
    other = await call(place, "agents", "--env", "staging")
    assert (other.returncode, other.stdout) == (0, b"")


def test_redis_that_is_away_is_69_and_a_bad_env_78() -> None:
    away = f"redis://127.0.0.1:{free_port()}"
    for arguments in (("agents",), ("events",), ("send", "x"), ("request", "x", "--timeout", "1")):
        assert reach(*arguments, "--redis-url", away).returncode == 69, arguments
    assert reach("agents", "--env", "a.b").returncode == 78
    assert reach("agents", "--redis-url", "http://x").returncode == 78


def test_scripts_are_what_redis_knows_by_their_hash(server: PrivateServer) -> None:
    listed = {row["name"]: row for row in json.loads(reach("scripts", "-o", "json").stdout)}
    assert {"route", "take", "settle", "due", "beat"} <= listed.keys()
    text = reach("scripts", "settle").stdout
    with redis.Redis.from_url(server.url) as client:
        assert client.script_load(text.decode()) == listed["settle"]["sha"]
    assert text.startswith(b"#!lua")
    told = json.loads(reach("scripts", "settle", "-o", "json").stdout)
    assert [argument["name"] for argument in told["arguments"]][:3] == ["due", "agent", "n"]
    assert reach("scripts", "nonsense").returncode == 2
    assert "reach" in reach("version").stdout.decode()


def answers(url: str) -> bool:
    with redis.Redis.from_url(url) as client:
        try:
            return bool(client.ping())
        except redis.RedisError:
            return False


@pytest.mark.parametrize("ending", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_dev_starts_everything_and_takes_everything_with_it(ending: signal.Signals) -> None:
    health_port = free_port()
    with Process("reach.cli", "dev", "--port", "0", "--workers", "2", "--health-port", str(health_port)) as dev:
        url = dev.first_line()
        assert answers(url)
        children = eventually(lambda: workers_of(dev.pid), 10, "two workers")
        dev.signal(ending)
        status, _, _ = dev.wait()
        assert status == {signal.SIGTERM: 0, signal.SIGINT: 130, signal.SIGKILL: -signal.SIGKILL}[ending]
        eventually(lambda: not any(map(lives, children)), 15, "the end of the workers")
        eventually(lambda: not answers(url), 5, "the end of the server")


def workers_of(parent: int) -> list[int]:
    """The two workers below a process, by what the system says; empty while there are fewer."""
    listing = subprocess.run(["ps", "-eo", "pid=,ppid=,args="], capture_output=True, text=True, check=True).stdout
    rows = [line.split(None, 2) for line in listing.splitlines()]
    found = [int(pid) for pid, ppid, args in rows if int(ppid) == parent and "reach_worker" in args]
    return found if len(found) == 2 else []


def lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
