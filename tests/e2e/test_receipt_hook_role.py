"""`--receipt-hook` of a worker: every receipt is posted once with its token, and what became of them is counted."""

import pytest

from tests.e2e.conftest import StartWorker
from tests.e2e.plain import PlainAgent, Sender, Wire
from tests.e2e.processes import free_port
from tests.e2e.test_archiver_role import told
from tests.unit.events.test_receipt_hook import Listener, listener
from tests.waiting import eventually

__all__ = ["listener"]  # the fixture

pytestmark = [
    pytest.mark.processes,
    pytest.mark.leaves_work(why="the group of the hook stays, as in life"),
]


def test_receipts_of_all_senders_are_posted_and_counted(
    client: Wire, start_worker: StartWorker, listener: Listener
) -> None:
    port = free_port()
    worker = start_worker(
        *("--roles", "router,archiver", "--receipt-hook", listener.url, "--metrics-port", str(port)),
        REACH_RECEIPT_HOOK_TOKEN="a-token\n",  # as a file of secrets has it
    ).wait_ready()
    agent, sender = PlainAgent(client, "plain-refund"), Sender(client)
    agent.register("refund")
    listener.statuses = [422]  # the first one is refused for good
    sent = []
    for number in range(3):
        sent.append(sender.send())
        hand, fields = agent.take()
        agent.answer_by_entry(fields, hand, {"status": "success", "output": number})
        sender.receipt(sent[-1])
        eventually(lambda: len(listener.heard) > number, 20.0, "the post")  # noqa: B023 - it is asked at once
    assert [(post["msg_id"], post["code"], post["receipt"]["output"]) for _, _, post in listener.heard] == [
        (msg_id, "ok", number) for number, msg_id in enumerate(sent)
    ]
    assert {headers["Authorization"] for _, headers, _ in listener.heard} == {"Bearer a-token"}
    assert len(set(listener.keys)) == 3
    eventually(lambda: told(port, "reach_receipts_posted_total") == 2, 20.0, "the count")
    assert told(port, "reach_receipts_given_up_total") == 1
    assert told(port, "reach_receipts_missed_total") == 0
    status, lines = worker.drain()
    assert status == 0
    assert [line["event"] for line in lines if line["level"] in {"warning", "error"}] == ["receipt not posted"]
    assert "secret" not in str(lines)
    assert "a-token" not in str(lines)
