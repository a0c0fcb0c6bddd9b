"""What is no entry of `control` at all: it is finished, and answered where it names a mailbox, in few words."""

from typing import Any

import msgspec
import pytest

from tests.unit.registry.place import MAILBOX, Place


@pytest.fixture
def place() -> Place:
    return Place()


@pytest.mark.parametrize(
    "junk",
    [
        b"",
        b"junk",
        b"[1]",
        b"\xff\xfe",
        b'{"op":"fly"}',
        b'{"op":5}',
        b'{"op":"register","reply_to":5}',
        b'{"op":"register","reply_to":"a:b","agent_id":"a","instance_id":"i","x":1}',
        b'{"op":"register","op":"leave"}',
        b'{"op":"leave","reply_to":"abc","agent_id":"\\ud800","instance_id":"i"}',
        b"[" * 5_000,
        b'{"a":' * 5_000,
    ],
)
async def test_junk_is_finished_without_an_answer(place: Place, junk: bytes) -> None:
    await place.backend.send_control(junk)
    assert await place.registrar.run_once() == {"refused": 1}
    assert await place.backend.read_control("w1", 0, 0) == []


async def test_junk_that_names_a_mailbox_is_answered(place: Place) -> None:
    answer = await place.ask({"op": "fly"})
    assert (answer["notice"], answer["code"], answer["op"]) == ("refused", "registration.malformed", None)


LONG = 900_000


@pytest.mark.parametrize(
    "junk",
    [
        {"op": "register", **{f"\x01{n:05}" + "\x01" * 20: 0 for n in range(5_000)}},
        {"op": "register", **{f"\x01{n:04}" + "\x01" * 100: 0 for n in range(1_400)}},
        {"op": "register", "agent_id": "a", "instance_id": "i", "groups": ["a b"] * 150_000},
        {"op": "register", "agent_id": "x" * LONG, "instance_id": "i"},
        {"op": "x" * LONG},
        {"op": "leave", "x" * LONG: 1},
        {"op": "cancel", "msg_id": "x" * LONG, "source": "a"},
        {"op": "capabilities", "agent_id": "x" * LONG, "instance_id": "i", "capabilities": []},
    ],
    ids=["many", "long names", "groups", "agent_id", "op", "field", "msg_id", "capabilities"],
)
async def test_the_answer_to_junk_is_small_however_large_it_was(place: Place, junk: dict[str, Any]) -> None:
    answer = await place.ask(junk)
    assert answer["notice"] == "refused"
    assert len(msgspec.json.encode(answer)) < 64 << 10


async def test_an_answer_names_only_what_can_be_read(place: Place) -> None:
    entry = b'{"op":"leave","reply_to":"%s","agent_id":[1],"instance_id":7,"msg_id":"m"}' % MAILBOX.encode()
    answer = await place.ask(entry)
    assert (answer["notice"], answer["code"], answer["msg_id"]) == ("refused", "registration.malformed", "m")
    assert not {"agent_id", "instance_id"} & answer.keys()


async def test_an_answer_leaves_out_what_is_no_text(place: Place) -> None:
    entry = b'{"op":"leave","reply_to":"%s","agent_id":"a b","instance_id":"i","msg_id":1e999}' % MAILBOX.encode()
    answer = await place.ask(entry)
    assert (answer["notice"], answer["msg_id"], answer["agent_id"]) == ("refused", "", "a b")
