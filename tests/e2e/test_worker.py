"""A `reach-worker` from outside: it waits for Redis, drains on SIGTERM, and what a killed one held is served by another."""

import json
import signal
import uuid
from typing import Any

import pytest

from reach.backend.private_server import PrivateServer
from tests.e2e.conftest import StartWorker
from tests.e2e.plain import PlainAgent, Sender, T, Wire
from tests.e2e.processes import WorkerProcess, free_port, run
from tests.servers import StartServer
from tests.waiting import eventually

pytestmark = pytest.mark.processes


def test_it_waits_for_redis_and_survives_its_absence(start_server: StartServer) -> None:
    port = free_port()
    with WorkerProcess(f"redis://127.0.0.1:{port}") as worker:
        worker.wait_ready(503)
        assert worker.probe("/livez") == (
            200,
            {"status": "live", "loop_age_ms": worker.probe("/livez")[1]["loop_age_ms"]},
        )
        assert worker.probe("/readyz")[1]["status"] == "starting"
        server = start_server(port=port)
        worker.wait_ready(200)
        server.kill()
        worker.wait_ready(503, within_s=5)
        assert worker.probe("/livez")[0] == 200
        server.restart()
        worker.wait_ready(200, within_s=5)
        with Wire(server.url) as client:
            agent = PlainAgent(client, "plain-refund")
            agent.register("refund")
            sender = Sender(client)
            msg_id = sender.send()
            hand, fields = agent.take()
            agent.answer_by_entry(fields, hand, {"status": "success"})
            assert sender.receipt(msg_id)["status"] == "success"
        status, lines = worker.drain()
    assert status == 0
    assert [line for line in lines if line["event"] == "waiting for redis"]
    assert len(lines) < 40, "an absence of Redis must not flood the log"


def test_it_ends_while_it_waits_for_redis() -> None:
    with WorkerProcess(f"redis://127.0.0.1:{free_port()}") as worker:
        worker.wait_ready(503)
        assert worker.drain(within_s=5)[0] == 0


def test_sigterm_drains_what_is_under_way_and_leaves_nothing(client: Wire, start_worker: StartWorker) -> None:
    worker = start_worker("--worker-id", "w1").wait_ready()
    agent = PlainAgent(client, "plain-refund")
    agent.register("refund")
    eventually(lambda: agent_is_known(client, worker), 10, "the agent in the router's index")
    sender = Sender(client)
    sent = {sender.send() for _ in range(300)}
    eventually(lambda: client("XLEN", f"{T}inbox:plain-refund:normal") > 0, 10, "the first delivery")
    status, lines = worker.drain()
    assert status == 0
    stopped = next(line for line in lines if line["event"] == "stopped")
    assert stopped["records_lost"] == 0
    assert not [line for line in lines if line["event"] == "cut off"]
    for key in ("ingress:normal", "again", "receipts"):
        pending = client("XPENDING", f"{T}{key}", "routers")
        assert pending[0] == 0, f"{key} has entries that nobody will finish: {pending}"
        assert client("XINFO", "CONSUMERS", f"{T}{key}", "routers") == [], f"{key} keeps a consumer that is gone"
    # Every delivery that was made is on record: nothing was lost on a graceful stop.
    delivered = client("XLEN", f"{T}inbox:plain-refund:normal")
    assert len([record for record in client.records("route.sent") if record["msg_id"] in sent]) == delivered
    assert delivered + client("XLEN", f"{T}ingress:normal") == 300


def agent_is_known(client: Wire, worker: WorkerProcess) -> bool:
    probe = Sender(client, f"probe.{uuid.uuid4().hex}")
    msg_id = probe.send(timeouts={"network_ms": 1, "total_ms": 200}, ttl_ms=200)
    receipt = probe.receipt(msg_id)
    assert worker.running
    return str(receipt["code"]) != "route.not_found"


@pytest.mark.leaves_work(why="who was killed is a consumer until it is swept")
def test_what_a_killed_router_held_is_served_by_another(client: Wire, start_worker: StartWorker) -> None:
    first = start_worker("--worker-id", "w1").wait_ready()
    agent = PlainAgent(client, "plain-refund")
    agent.register("refund")
    sender = Sender(client)
    # Stopped in the middle: frozen when it has read and not yet routed. Its entries are pending to it, and to nobody else for 5 s.
    first.signal(signal.SIGSTOP)
    sent = [sender.send() for _ in range(50)]
    client("XREADGROUP", "GROUP", "routers", "w1", "COUNT", 20, "STREAMS", f"{T}ingress:normal", ">")
    first.signal(signal.SIGKILL)
    second = start_worker("--worker-id", "w2").wait_ready()
    got = set()
    for _ in sent:
        hand, fields = agent.take(within_s=15)
        got.add(fields["m"])
        agent.answer_by_entry(fields, hand, {"status": "success"})
    assert got == set(sent)
    for msg_id in sent:
        assert sender.receipt(msg_id)["status"] == "success"
    assert second.drain()[0] == 0


@pytest.mark.leaves_work(why="who was killed is a consumer until it is swept")
def test_every_message_ends_when_all_agents_and_all_routers_but_one_are_gone(
    client: Wire, start_worker: StartWorker
) -> None:
    """Taken by one who is dead, undelivered in his inbox, asked for by nobody who lives: each by its own deadline."""
    workers = [start_worker("--worker-id", f"w{n}").wait_ready() for n in range(3)]
    agent = PlainAgent(client, "plain-refund")  # registers and never beats again
    agent.register("refund")
    sender = Sender(client)
    patience: dict[str, Any] = {"timeouts": {"total_ms": 4_000}}
    taken = sender.send(**patience)
    _, fields = agent.take()
    assert fields["m"] == taken
    queued = [sender.send(**patience) for _ in range(5)]
    lonely = sender.send("capability:nobody-has-it", **patience)
    # Accepted: each has its record. What a killed router had read and not applied would wait for its claim instead.
    sent = (taken, *queued, lonely)
    eventually(lambda: client("EXISTS", *(f"{T}m:{msg_id}" for msg_id in sent)) == len(sent), 3, "a record of each")
    for gone in workers[:2]:
        gone.signal(signal.SIGKILL)
    ends = {msg_id: sender.receipt(msg_id, within_s=6) for msg_id in sent}
    assert {ends[msg_id]["code"] for msg_id in (taken, *queued)} == {"timeout.total"}
    assert ends[taken]["status"] == "retryable"
    assert ends[lonely]["code"] == "route.not_found"
    assert client("ZCARD", f"{T}due") == 0


@pytest.mark.leaves_work(why="who was killed is a consumer until it is swept")
def test_a_worker_with_the_id_of_a_killed_one_goes_on_at_once(client: Wire, start_worker: StartWorker) -> None:
    start_worker("--worker-id", "w1").wait_ready().signal(signal.SIGKILL)
    sender = Sender(client)
    msg_id = sender.send(ttl_ms=0)
    client("XREADGROUP", "GROUP", "routers", "w1", "COUNT", 1, "STREAMS", f"{T}ingress:normal", ">")
    start_worker("--worker-id", "w1").wait_ready()
    assert sender.receipt(msg_id, within_s=4)["code"] == "ttl.zero"


def test_a_port_that_is_taken_ends_it_with_78(server: PrivateServer, start_worker: StartWorker) -> None:
    first = start_worker().wait_ready()
    done = run("reach_worker", "run", "--redis-url", server.url, "--health-port", str(first.health_port))
    assert done.returncode == 78
    assert str(first.health_port) in done.stderr.decode()


def test_bad_settings_are_all_told_and_end_it_with_78() -> None:
    done = run("reach_worker", "--health-port", "x", REACH_ENV="a.b", REACH_ROLES="cook")
    assert done.returncode == 78
    problems = done.stderr.decode().splitlines()
    assert [line.split(":")[1].strip() for line in problems] == ["REACH_ENV", "REACH_ROLES", "--health-port"]
    assert run("reach_worker", "run", "--no-such-option").returncode == 2


def test_check_says_what_it_found_or_69(server: PrivateServer) -> None:
    good = run("reach_worker", "check", "--redis-url", server.url)
    assert good.returncode == 0
    assert "partitions  1" in good.stdout.decode()
    away = run("reach_worker", "check", "--redis-url", f"redis://:hunter2@127.0.0.1:{free_port()}")
    assert away.returncode == 69
    assert "hunter2" not in away.stderr.decode()
    assert run("reach_worker", "check", REACH_REDIS_URL="http://x").returncode == 78
    assert run("reach_worker", "version").returncode == 0


def test_every_line_of_its_log_is_json(client: Wire, start_worker: StartWorker) -> None:
    worker = start_worker("--log-level", "debug").wait_ready()
    client("XADD", f"{T}ingress:normal", "*", "e", b"\xff\x00 junk")
    eventually(lambda: client.records("message.rejected"), 5, "the event")
    status, lines = worker.drain()
    assert status == 0
    serving = next(line for line in lines if line["event"] == "serving")
    assert (serving["env"], serving["roles"], serving["partitions"]) == ("dev", ["router"], [0])
    assert all({"at", "level", "logger", "event"} <= line.keys() for line in lines)
    assert json.dumps(lines)
