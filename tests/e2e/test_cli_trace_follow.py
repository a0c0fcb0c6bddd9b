"""`reach trace --follow`: the picture of a conversation is drawn anew as something happens to it."""

import json
import signal
from typing import Any

import pytest

from reach.backend.keys import KeySpace
from reach.backend.private_server import PrivateServer
from tests.e2e.plain import Wire
from tests.e2e.processes import Process

pytestmark = pytest.mark.processes

EVENTS = KeySpace("dev").events(0)
BEGAN_US = 1_780_000_000_000_000


def put(client: Wire, after_ms: int, point: str, **fields: Any) -> None:
    record = {"at_us": BEGAN_US + after_ms * 1000, "point": point, "correlation_id": "c1", **fields}
    client("XADD", EVENTS, "*", "b", json.dumps([{"leg": 0, "attempt": 0, **record}]), "v", "1")


def test_each_picture_is_a_line_of_json_until_it_is_told_to_end(server: PrivateServer, client: Wire) -> None:
    put(client, 0, "message.received", msg_id="m1", pattern="capability:pay")
    with Process("reach.cli", "trace", "c1", "--follow", "--json", "--redis-url", server.url) as shown:
        first = json.loads(shown.first_line())
        assert [(one["msg_id"], one["runs"]) for one in first["messages"]] == [("m1", [])]
        put(client, 5, "message.received", msg_id="other", pattern="capability:pay", correlation_id="c2")
        put(client, 10, "agent.received", msg_id="m1", attempt=1, agent="bank", instance="bank.1")
        second = json.loads(shown.first_line())
        assert [run["agent"] for run in second["messages"][0]["runs"]] == ["bank"]
        assert second["records"] == 2, "what belongs to another conversation draws nothing"
        put(client, 30, "agent.completed", msg_id="m1", attempt=1, agent="bank", instance="bank.1", code="ok")
        third = json.loads(shown.first_line())
        assert [run["code"] for run in third["messages"][0]["runs"]] == ["ok"]
        shown.signal(signal.SIGINT)
        assert shown.wait()[0] == 130


def test_without_a_terminal_the_pictures_stand_one_after_the_other(server: PrivateServer, client: Wire) -> None:
    put(client, 0, "message.received", msg_id="m1", pattern="capability:pay")
    with Process("reach.cli", "trace", "m1", "--follow", "--redis-url", server.url) as shown:
        assert shown.first_line().startswith("conversation c1: 1 message, 0 runs")
        put(client, 10, "agent.received", msg_id="m1", attempt=1, agent="bank", instance="bank.1")
        put(client, 30, "agent.completed", msg_id="m1", attempt=1, agent="bank", instance="bank.1", code="ok")
        while "run 1 bank/bank.1" not in (line := shown.first_line()) or " ok" not in line:
            assert "\x1b" not in line
        shown.signal(signal.SIGINT)
        assert shown.wait()[0] == 130
