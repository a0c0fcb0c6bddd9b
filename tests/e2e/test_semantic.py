"""A worker that ranks `intent:` with a model beside the words."""

import pytest

from tests.e2e.conftest import StartWorker
from tests.e2e.plain import PlainAgent, Sender, Wire

pytestmark = pytest.mark.processes


def test_a_text_reaches_whoever_is_meant_though_it_shares_no_word(client: Wire, start_worker: StartWorker) -> None:
    start_worker("--semantic", "tests.concepts:embed", PYTHONPATH=".:workers").wait_ready()
    refund, weather = PlainAgent(client, "desk"), PlainAgent(client, "sky")
    refund.register("refund")
    weather.register("weather")
    sender = Sender(client)
    msg_id = sender.send("intent:reimburse me in cash")
    hand, fields = refund.take()
    refund.answer_by_entry(fields, hand, {"status": "success"})
    assert sender.receipt(msg_id)["status"] == "success"
    nobody = sender.send("intent:paint the kitchen blue")
    assert sender.receipt(nobody)["code"] == "route.not_found"
