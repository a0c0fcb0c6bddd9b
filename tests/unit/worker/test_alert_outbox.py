"""The pace of a chat, tries, and that nothing is lost without a word; where alerts may be sent to."""

import asyncio
import json
import logging
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from reach.errors import ConfigError
from reach_worker.alert_bridge.bucket import Bucket
from reach_worker.alert_bridge.chats import CHATS
from reach_worker.alert_bridge.chats.port import Outgoing, Reply, Target
from reach_worker.alert_bridge.notification import Notification
from reach_worker.alert_bridge.outbox import GIVE_UP_MS, MAX_WAITING, Outbox
from reach_worker.alert_bridge.posting import NotPosted
from reach_worker.alert_bridge.targets import read_targets
from tests.manual_clock import ManualClock
from tests.unit.worker.test_alert_chats import alert, notification

OK = Reply(200, b'{"errcode":0}')
SECRET = "https://qyapi.example/cgi-bin/webhook/send?key=0f3a-secret"


class Chatroom:
    """Answers as it is told to, and keeps what it was sent."""

    def __init__(self, clock: ManualClock) -> None:
        self.clock = clock
        self.answers: list[Reply | NotPosted] = []
        self.at_ms: list[int] = []
        self.sent: list[str] = []

    async def __call__(self, outgoing: Outgoing) -> Reply:
        answer = self.answers.pop(0) if self.answers else OK
        if isinstance(answer, NotPosted):
            raise answer
        if answer == OK:
            self.at_ms.append(self.clock.monotonic_ms())
            self.sent.append(json.loads(outgoing.body)["markdown"]["content"])
        return answer


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def room(clock: ManualClock) -> Chatroom:
    return Chatroom(clock)


@pytest.fixture
def outbox(clock: ManualClock, room: Chatroom) -> Outbox:
    return Outbox("wecom", CHATS["wecom"], Target(SECRET, ""), room, clock=clock, rng=random.Random(1))


def one(number: int, status: str = "firing") -> Notification:
    return notification(alert(f"Rule{number}", status=status))


async def run_all(outbox: Outbox, clock: ManualClock, until: Callable[[], bool]) -> None:
    """Run it as its supervisor does; whenever it waits for the clock, move that on by a second."""
    while not until():
        async with asyncio.TaskGroup() as group:
            run = group.create_task(outbox.run_once())
            while not run.done():
                await asyncio.sleep(0)
                if clock.waiting:
                    clock.advance(1_000)


async def test_each_is_sent_while_the_chat_takes_them(outbox: Outbox, room: Chatroom, clock: ManualClock) -> None:
    for number in range(5):
        outbox.put(one(number))
    await run_all(outbox, clock, lambda: outbox.told == 5)
    assert [f"Rule{number}" in said for number, said in enumerate(room.sent)] == [True] * 5


async def test_what_is_too_much_is_summarised_and_no_minute_has_more_than_twenty(
    outbox: Outbox, room: Chatroom, clock: ManualClock
) -> None:
    for number in range(70):
        outbox.put(one(number))
    await run_all(outbox, clock, lambda: outbox.told == 70)
    for number in range(70, 100):
        outbox.put(one(number))
    await run_all(outbox, clock, lambda: outbox.told == 100)
    for end in room.at_ms:
        assert sum(end - 60_000 < at_ms <= end for at_ms in room.at_ms) <= 20
    assert "51 notifications in one message" in room.sent[19]
    assert (outbox.lost, outbox.waiting) == (0, 0)
    said = "".join(room.sent[:20])
    assert [number for number in range(70) if f"Rule{number} " not in said] == []
    assert all(len(text.encode()) <= 4_096 for text in room.sent)


async def test_it_tries_again_and_puts_together_what_came_meanwhile(
    outbox: Outbox, room: Chatroom, clock: ManualClock
) -> None:
    room.answers = [NotPosted("TimeoutError"), Reply(500, b""), Reply(200, b'{"errcode":45009}')]
    outbox.put(one(1))
    await run_all(outbox, clock, lambda: not room.answers)
    outbox.put(one(2, "resolved"))
    await run_all(outbox, clock, lambda: outbox.told == 2)
    assert len(room.sent) == 1
    assert "Rule1" in room.sent[0]
    assert "RESOLVED Rule2" in room.sent[0]
    assert (outbox.failed, outbox.retried, outbox.sent, outbox.lost) == (3, 3, 1, 0)
    assert outbox.last_sent_ms == clock.wall_ms()
    outbox.put(one(3))
    await run_all(outbox, clock, lambda: outbox.told == 3)
    assert (outbox.failed, outbox.retried, outbox.sent) == (3, 3, 2), "what comes after a success is no retry"


async def test_it_comes_back_when_the_chat_says(outbox: Outbox, room: Chatroom, clock: ManualClock) -> None:
    room.answers = [Reply(429, b"", retry_after_ms=90_000)]
    outbox.put(one(1))
    await run_all(outbox, clock, lambda: outbox.told == 1)
    assert clock.monotonic_ms() >= 90_000


async def test_what_is_refused_is_given_up_at_once_and_told_with_the_next(
    outbox: Outbox, room: Chatroom, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    room.answers = [Reply(200, b'{"errcode":93000,"errmsg":"invalid"}')]
    outbox.put(one(1))
    await run_all(outbox, clock, lambda: outbox.lost == 1)
    assert (outbox.failed, outbox.retried, outbox.last_sent_ms) == (1, 0, None)
    assert "alerts lost" in caplog.text
    assert "Rule1" in caplog.text
    assert "93000" in caplog.text
    assert "secret" not in caplog.text
    outbox.put(one(2))
    outbox.put(one(3))
    await run_all(outbox, clock, lambda: outbox.told == 2)
    assert "1 notifications before this one could not be sent" in room.sent[0]
    assert "before this one" not in "".join(room.sent[1:])


async def test_a_chat_that_is_away_for_long_loses_what_is_old_and_says_so(
    outbox: Outbox, room: Chatroom, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    room.answers = [NotPosted("ConnectionRefusedError")] * 2_000
    outbox.put(one(1))
    await run_all(outbox, clock, lambda: outbox.lost == 1)
    assert GIVE_UP_MS <= clock.monotonic_ms() < GIVE_UP_MS + 90_000
    assert len(room.answers) > 1_900  # it was tried at a decent pace
    assert "not taken within 15 minutes" in caplog.text
    assert "secret" not in caplog.text


async def test_a_full_outbox_takes_no_more(outbox: Outbox) -> None:
    for number in range(MAX_WAITING):
        assert outbox.has_room
        outbox.put(one(number))
    assert not outbox.has_room


async def test_at_the_end_what_waits_goes_in_one_message(outbox: Outbox, room: Chatroom) -> None:
    outbox.put(one(1))
    outbox.put(one(2))
    outbox.interrupt()
    assert await outbox.run_once() == {}
    await outbox.close()
    assert len(room.sent) == 1
    assert outbox.waiting == 0


async def test_at_the_end_what_cannot_be_sent_is_logged_by_name(
    outbox: Outbox, room: Chatroom, caplog: pytest.LogCaptureFixture
) -> None:
    room.answers = [NotPosted("ConnectionRefusedError")]
    outbox.put(one(7))
    with caplog.at_level(logging.ERROR):
        await outbox.close()
    assert "Rule7" in caplog.text
    assert outbox.lost == 1


def test_a_token_comes_back_a_minute_after_it_was_spent() -> None:
    bucket = Bucket(2)
    bucket.spend(0)
    bucket.spend(30_000)
    assert (bucket.free(59_999), bucket.wait_ms(59_999)) == (0, 1)
    with pytest.raises(ValueError, match="no token"):
        bucket.spend(59_999)
    assert bucket.free(60_000) == 1
    bucket.spend(60_000)
    assert bucket.wait_ms(60_000) == 30_000


def test_targets_are_read(tmp_path: Path) -> None:
    place = tmp_path / "robot"
    place.write_text("https://oapi.example/robot/send?access_token=t#SEC1\n")
    found = read_targets(["wecom=https://a.example/x?key=1", f"dingtalk.ops=@{place}"])
    assert found["wecom"] == (CHATS["wecom"], Target("https://a.example/x?key=1", ""))
    assert found["dingtalk.ops"][1] == Target("https://oapi.example/robot/send?access_token=t", "SEC1")


def test_all_that_is_wrong_with_targets_is_told_without_an_address() -> None:
    with pytest.raises(ConfigError) as caught:
        read_targets(
            [
                "https://a.example/?key=hunter2",
                "teams=https://hunter2",
                "wecom=ftp://hunter2.example",
                "slack=https:///hunter2",
                "slack=https://hooks.example/ok",
                "slack=https://hooks.example/hunter2",
                "feishu=@/nowhere/at/all",
                "generic=https://a.example:99999/hunter2",
            ]
        )
    assert "hunter2" not in str(caught.value)
    told = [problem.split(": ")[1] for problem in caught.value.details["problems"]]
    assert told == ["entry 1", "teams", "wecom", "slack", "slack", "feishu", "generic"]
