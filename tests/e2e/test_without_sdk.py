"""A sender and an agent with plain Redis commands against two `reach-worker` processes (PROTOCOL, section 10)."""

import json

import pytest

from tests.e2e.conftest import StartWorker
from tests.e2e.plain import E, PlainAgent, Sender, T, Wire
from tests.e2e.processes import reach
from tests.waiting import eventually

pytestmark = pytest.mark.processes


def published(name: str) -> str:
    """The Lua text of a step, as an agent in another language gets it."""
    done = reach("scripts", name)
    assert done.returncode == 0
    return done.stdout.decode()


def test_a_plain_sender_and_a_plain_agent_work_both_ways_of_settling(client: Wire, start_worker: StartWorker) -> None:
    workers = [start_worker("--worker-id", name).wait_ready() for name in ("w1", "w2")]
    listed = {row["name"]: row["sha"] for row in json.loads(reach("scripts", "-o", "json").stdout)}
    agent = PlainAgent(client, "plain-refund", {name: published(name) for name in ("beat", "settle")})
    assert agent.shas == {name: listed[name] for name in agent.shas}
    assert agent.beat() == 0  # nobody knows it yet
    notice = agent.register("refund")
    assert (notice["notice"], notice["partitions"], notice["agent_id"]) == ("registered", 1, "plain-refund")
    assert agent.beat() == 1
    sender = Sender(client)

    by_entry = sender.send()
    hand, fields = agent.take()
    assert fields["m"] == by_entry
    assert json.loads(fields["e"])["msg_id"] == by_entry
    assert int(fields["x"]) > 0
    assert agent.renew(hand) == [hand.encode()]
    agent.answer_by_entry(fields, hand, {"status": "success", "output": {"refund_id": 7}})
    receipt = sender.receipt(by_entry)
    assert (receipt["status"], receipt["code"], receipt["output"]) == ("success", "ok", {"refund_id": 7})
    assert (receipt["target_agent"], receipt["attempts"], receipt["stored"]) == ("plain-refund", 1, False)

    by_script = sender.send(priority=9)
    hand, fields = agent.take(lane="high")
    assert fields["m"] == by_script
    assert agent.answer_by_script(fields, hand, "by script") == "done"
    assert agent.answer_by_script(fields, hand, "twice") == "done"  # the one that closed it may say so again
    assert agent.renew(hand, lane="high") == []
    assert sender.receipt(by_script)["output"] == "by script"

    returned = sender.send()
    hand, fields = agent.take()
    agent.answer_by_entry(fields, hand, {"status": "retryable", "code": "handler.retry", "retry_after_ms": 20})
    again, fields = agent.take()
    assert (fields["m"], fields["a"], again != hand) == (returned, "1", True)
    assert agent.answer_by_script(fields, hand, "with the old hand") == "stale"
    assert agent.answer_by_script(fields, again, "with the right one") == "done"
    assert sender.receipt(returned)["output"] == "with the right one"

    for worker in workers:
        assert worker.drain()[0] == 0
    for key in (f"{T}ingress:normal", f"{T}again", f"{T}receipts", f"{T}inbox:plain-refund:normal"):
        assert client("XLEN", key) == 0, key
    assert client("ZCARD", f"{T}due") == 0


@pytest.mark.leaves_work(why="what the agent takes it does not answer")
def test_two_workers_share_the_work_and_a_control_entry_cancels(client: Wire, start_worker: StartWorker) -> None:
    workers = [start_worker("--worker-id", name).wait_ready() for name in ("w1", "w2")]
    agent = PlainAgent(client, "plain-refund")
    agent.register("refund")
    sender = Sender(client)
    sent = [sender.send() for _ in range(60)]
    got = {agent.take()[1]["m"] for _ in sent}
    assert got == set(sent)

    def routed_by() -> set[str]:
        return {record["worker"] for record in client.records("route.sent")}

    eventually(lambda: routed_by() == {"w1", "w2"}, 5, "records of both workers")
    cancel = {"op": "cancel", "msg_id": sent[0], "source": "plain-sender", "reply_to": sender.mailbox}
    client("XADD", f"{E}control", "*", "c", json.dumps(cancel))
    assert sender.receipt(sent[0])["code"] == "cancelled"
    for worker in workers:
        assert worker.drain()[0] == 0
