"""The role `archiver` of a worker: beside a router, or alone."""

from pathlib import Path

import pytest

from reach.events.opening import open_store
from reach.events.store import Query
from tests.e2e.conftest import StartWorker
from tests.e2e.plain import PlainAgent, Sender, Wire
from tests.e2e.processes import run

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


def test_without_a_store_it_says_what_is_missing() -> None:
    done = run("reach_worker", "run", "--roles", "archiver")
    assert done.returncode == 78
    assert b"--event-store" in done.stderr
