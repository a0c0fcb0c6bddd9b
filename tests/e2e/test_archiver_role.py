"""The role `archiver` of a worker: beside a router, or alone."""

import resource
import urllib.request
from pathlib import Path

import pytest

from reach.events.opening import open_store
from reach.events.store import Query
from tests.e2e.conftest import StartWorker
from tests.e2e.plain import PlainAgent, Sender, Wire
from tests.e2e.processes import free_port, run
from tests.waiting import eventually

pytestmark = [
    pytest.mark.processes,
    pytest.mark.leaves_work(why="the archivers' group stays, as in life"),
]


async def test_every_record_of_a_message_is_in_the_store_after_a_graceful_stop(
    client: Wire, start_worker: StartWorker, tmp_path: Path
) -> None:
    router = start_worker("--worker-id", "r1").wait_ready()
    archiver = start_worker("--roles", "archiver", "--event-store", f"sqlite:{tmp_path}").wait_ready()
    agent = PlainAgent(client, "plain-refund")
    agent.register("refund")
    sender = Sender(client)
    msg_id = sender.send()
    hand, fields = agent.take()
    agent.answer_by_entry(fields, hand, {"status": "success"})
    sender.receipt(msg_id)
    assert router.drain()[0] == 0
    assert archiver.drain()[0] == 0
    found = await open_store(f"sqlite:{tmp_path}").find(Query(fields={"msg_id": (msg_id,)}))
    assert {"message.received", "route.matched", "route.sent", "agent.completed"} <= {one["point"] for one in found}
    assert found == sorted(found, key=lambda one: one["at_us"])


async def test_it_tells_what_it_could_not_keep_and_ends_in_order(
    client: Wire, start_worker: StartWorker, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("no folder")
    ports = [free_port(), free_port()]
    client("XADD", "reach:{dev.0}:events", "*", "b", "junk")
    store = ("--roles", "archiver", "--event-store")
    lame = start_worker(*store, f"sqlite:{tmp_path / 'file'}", "--metrics-port", str(ports[0]))
    eventually(lambda: told(ports[0], "reach_archive_failures_total") > 0, 20.0, "the failures")
    assert lame.drain()[0] == 0
    well = start_worker(*store, f"sqlite:{tmp_path / 'folder'}", "--metrics-port", str(ports[1])).wait_ready()
    eventually(lambda: told(ports[1], 'reach_archive_lost_total{why="unreadable"}') == 1, 20.0, "the junk")
    assert told(ports[1], 'reach_archive_lost_total{why="refused"}') == 0
    assert told(ports[1], "reach_archive_failures_total") == told(ports[1], "reach_archive_refused_total") == 0
    assert well.drain()[0] == 0


@pytest.mark.parametrize("roles", ["router,archiver", "archiver"])
async def test_a_full_disk_takes_no_router_out_of_service(
    client: Wire, start_worker: StartWorker, tmp_path: Path, roles: str
) -> None:
    """Nothing can be written into the store: who routes goes on, and says that it is degraded."""
    worker = start_worker("--roles", roles, "--event-store", f"sqlite:{tmp_path}").wait_ready()
    everything = resource.prlimit(worker.pid, resource.RLIMIT_FSIZE, (4_096, resource.RLIM_INFINITY))
    client("XADD", "reach:{dev.0}:events", "*", "b", '[{"at_us":1,"point":"gap","counts":{"missing":1}}]')
    routes = roles != "archiver"
    fault = {"archiver": "events.unavailable"}
    wanted: tuple[int, dict[str, object]] = (
        (200, {"status": "degraded", "degraded": fault})
        if routes
        else (503, {"status": "not ready", "services": fault})
    )
    eventually(lambda: worker.probe("/readyz") == wanted, 20.0, "that the store is full")
    if routes:
        agent = PlainAgent(client, "plain-refund")
        agent.register("refund")
        sender = Sender(client)
        msg_id = sender.send()
        hand, fields = agent.take()
        agent.answer_by_entry(fields, hand, {"status": "success"})
        sender.receipt(msg_id)
        assert worker.probe("/readyz") == wanted
    resource.prlimit(worker.pid, resource.RLIMIT_FSIZE, everything)
    eventually(lambda: worker.probe("/readyz") == (200, {"status": "ready"}), 20.0, "that there is room again")
    status, log = worker.drain()
    assert status == 0
    assert [line["error"] for line in log if line["event"] == "service failed"]
    found = await open_store(f"sqlite:{tmp_path}").find(Query(fields={"point": ("gap",)}))
    assert len(found) == 1, "what waited meanwhile is kept"


def told(port: int, series: str) -> float:
    """What /metrics says of it; -1 where it does not, or not yet."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as answer:
            lines = answer.read().decode().splitlines()
    except OSError:
        return -1
    return next((float(line.rpartition(" ")[2]) for line in lines if line.startswith(f"{series} ")), -1)


def test_without_a_store_it_says_what_is_missing() -> None:
    done = run("reach_worker", "run", "--roles", "archiver")
    assert done.returncode == 78
    assert b"--event-store" in done.stderr
