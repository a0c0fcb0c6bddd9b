"""`reach trace` of some flows, as it is drawn: without moments, and with short names for what is drawn by lot."""

import re

import msgspec
import pytest

from reach.cli.picture import lines_of
from reach.events.traced import Trace, trace_of
from tests.faults.stages import MemoryStage
from tests.integration.points import flows_again, flows_all, flows_one
from tests.integration.points.table import FLOWS
from tests.integration.points.town import Town

__all__ = ["flows_again", "flows_all", "flows_one"]

PICTURES = {
    "retried": """
        capability:work MSG from client request: ok, T
        ├─ route.matched: 2 of 2 fit, score chose a1
        ├─ run 1 a1/I on H: waited T, ran T, handler.error
        ├─ message.retried: run 1, a1, handler.error, waits T
        ├─ route.matched: 1 of 2 fit, score chose a2
        ├─ run 2 a2/I on H: waited T, ran T, ok
        └─ message.delivered: run 2, a2, ok
    """,
    "moved": """
        capability:work MSG from client request: ok, T
        ├─ route.matched: 1 of 1 fit, score chose p1
        ├─ run 1 p1: not begun
        ├─ route.matched: 1 of 1 fit, score chose a1
        ├─ run 1 a1/I on H (moved): waited T, ran T, ok
        └─ message.delivered: run 1, a1, ok
    """,
    "broadcast": """
        capability:work MSG from client request: 2 ok, T
        ├─ route.matched: 2 of 2 fit, broadcast_all chose a1,a2
        ├─ leg 0 run 1 a1/I on H: waited T, ran T, ok
        ├─ leg 1 run 1 a2/I on H: waited T, ran T, handler.error
        ├─ leg 0 message.delivered: run 1, a1, ok
        ├─ leg 1 message.retried: run 1, a2, handler.error, waits T
        ├─ route.matched: 1 of 1 fit, direct chose a2
        ├─ leg 1 run 2 a2/I on H: waited T, ran T, ok
        └─ leg 1 message.delivered: run 2, a2, ok
    """,
    "stages": """
        capability:work MSG from client request: 2 ok, T
        ├─ route.matched: 3 of 3 fit, broadcast_all chose a1,a2,o1
        ├─ leg 0 run 1 a1/I on H: waited T, ran T, ok
        ├─ leg 0 message.delivered: run 1, a1, ok
        ├─ route.matched: 1 of 1 fit, direct chose a2
        ├─ leg 1 run 1 a2/I on H: waited T, ran T, ok
        └─ leg 1 message.delivered: run 1, a2, ok
    """,
    "parked_and_answered": """
        capability:work MSG from client request: ok, T
        ├─ route.matched: 1 of 1 fit, score chose a1
        ├─ run 1 a1/I on H: waited T, ran T, input_required
        ├─ route.matched: 1 of 1 fit, score chose a1
        ├─ run 1 a1/I on H: waited T, ran T, ok
        └─ message.delivered: run 1, a1, ok
    """,
    "buried": """
        capability:work MSG from client request: handler.error, T
        ├─ route.matched: 1 of 1 fit, score chose a1
        ├─ run 1 a1/I on H: waited T, ran T, handler.error
        ├─ message.dead: run 1, a1, handler.error
        └─ message.delivered: run 1, a1, handler.error
    """,
    "requeued": """
        capability:work MSG from client request: ok, T
        ├─ route.matched: 1 of 1 fit, score chose a1
        ├─ run 1 a1/I on H: waited T, ran T, handler.error
        ├─ message.dead: run 1, a1, handler.error
        ├─ message.delivered: run 1, a1, handler.error
        ├─ round 2 message.received
        ├─ round 2 route.matched: 1 of 1 fit, score chose a1
        └─ round 2 run 1 a1/I on H: waited T, ran T, ok
    """,
    "a_copy_when_it_has_ended": """
        capability:work MSG from client request: ok, T
        ├─ route.matched: 1 of 1 fit, score chose a1
        ├─ run 1 a1/I on H: waited T, ran T, ok
        ├─ message.delivered: run 1, a1, ok
        ├─ message.received: duplicate
        └─ message.delivered: run 1, a1, ok, of a copy
    """,
    "unsure_and_nobody_else": """
        capability:work MSG from client request: ok, T
        ├─ route.matched: 1 of 1 fit, score chose a1
        ├─ run 1 a1/I on H: waited T, ran T, ok
        └─ message.delivered: run 1, a1, ok
    """,
}


@pytest.mark.parametrize("name", sorted(PICTURES))
async def test_the_picture_of_a_flow(name: str) -> None:
    async with Town(stage=MemoryStage()) as town:
        await FLOWS[name].act(town)
        records = [msgspec.json.decode(msgspec.json.encode(one)) for one in await town.records()]
    found = trace_of("any", records)
    _, *lines = lines_of(found)
    wanted = [line.strip() for line in PICTURES[name].strip().splitlines()]
    assert [_plain(line) for line in lines] == wanted
    (message,) = found.messages
    own = [record["at_us"] for record in records if record.get("code") != "duplicate" and not record.get("stored")]
    assert message.ended_at_us == max(own), "a copy makes it no longer"
    # What --json and --follow say is the same tree.
    assert msgspec.json.decode(msgspec.json.encode(found), type=Trace) == found
    begun = trace_of("any", records[:3])
    assert [message.msg_id for message in begun.messages] == [message.msg_id for message in found.messages]
    assert begun.messages[0].open


def _plain(line: str) -> str:
    """Without offset and bar, which are 12 and 24 wide; moments are T, the message MSG, an instance I, its host H."""
    text = re.sub(r"[0-9a-f-]{36}", "MSG", line[40:].strip())
    text = re.sub(r"(\w+)/\S+ on [^ :]+", r"\1/I on H", text)
    text = re.sub(r"\d+(\.\d+)? (ms|s)\b", "T", text)
    return re.sub(r" {2,}", " ", text)
