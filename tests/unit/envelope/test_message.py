"""What follows from the fields of an envelope."""

import pytest

from reach.envelope.codec import decode
from reach.envelope.message import LANES, Payload, lane_of
from tests.envelopes import MSG_ID, raw


@pytest.mark.parametrize(
    ("priority", "lane"),
    [
        (-5, "low"),
        (1, "low"),
        (3, "low"),
        (4, "normal"),
        (5, "normal"),
        (7, "normal"),
        (8, "high"),
        (10, "high"),
        (99, "high"),
    ],
)
def test_lane_of_a_priority(priority: int, lane: str) -> None:
    assert lane_of(priority) == lane
    assert decode(raw(priority=priority)).lane == lane
    assert lane in LANES


def test_task_and_conversation_are_the_msg_id_when_absent() -> None:
    bare = decode(raw())
    assert (bare.task, bare.conversation) == (MSG_ID, MSG_ID)
    told = decode(raw(task_id="T 1", correlation_id="c-1"))
    assert (told.task, told.conversation) == ("T 1", "c-1")


def test_no_body_is_not_the_body_null() -> None:
    assert Payload().body_bytes == b""
    assert decode(raw(payload={"body": None})).payload.body_bytes == b"null"
    assert decode(raw(payload=None)).payload.body_bytes == b""
