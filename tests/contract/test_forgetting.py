"""FLUSHALL between any two steps: no step raises, nobody gets what is not theirs, and the next message goes through."""

from collections.abc import Awaitable, Callable

import pytest

from reach.backend.steps import Again, Plan, Send, Settlement, Taken, WorkEntry
from reach.envelope.ledger import LegState
from tests.contract.drive import AGENT, BOX, ENVELOPE, TO_AGENT, Drive, head_of, new_id, retryable, success


class Story:
    """One message's way, step by step; each step uses what the former ones left in the hands of its process, if anything."""

    def __init__(self, drive: Drive) -> None:
        self.drive, self.backend = drive, drive.backend
        self.msg_id = new_id()
        self.work: list[WorkEntry] = []
        self.asked: list[WorkEntry] = []
        self.taken: list[Taken] = []
        self.cursors: dict[str, str] = {"high": "0-0", "normal": "0-0", "low": "0-0"}

    async def keep(self) -> None:
        await self.drive.keep_box()

    async def register(self) -> None:
        stored, _ = await self.backend.registration(AGENT)
        await self.backend.register(AGENT, b'{"agent_id":"a1"}', "i1", b"{}", stored, ["request"])

    async def open(self) -> None:
        await self.backend.open_inbox(0, AGENT)

    async def submit(self) -> None:
        await self.backend.submit(0, "normal", ENVELOPE)

    async def read(self) -> None:
        self.work = [entry for entry in await self.drive.work() if entry.kind == "ingress"] or self.work

    async def route(self) -> None:
        for entry in self.work[:1]:
            await self.backend.route(
                0, [Send(entry, self.msg_id, head_of(self.msg_id), (TO_AGENT,), ENVELOPE, BOX, "{}")]
            )

    async def ring(self) -> None:
        await self.backend.ring(AGENT, {0: self.cursors}, 0)

    async def take(self) -> None:
        result = await self.backend.take(0, AGENT, "i1", 10)
        self.cursors = result.cursors
        self.taken = list(result.taken) or self.taken

    async def renew(self) -> None:
        await self.backend.renew(0, AGENT, "i1", {taken.lane: [taken.hand] for taken in self.taken})

    async def progress(self) -> None:
        for taken in self.taken:
            await self.backend.progress(0, taken.msg_id, taken.leg, taken.hand, b"{}")

    async def fail(self) -> None:
        await self._settle(retryable())

    async def ask(self) -> None:
        self.asked = [entry for entry in await self.drive.work() if entry.kind == "again"] or self.asked

    async def decide(self) -> None:
        for entry in self.asked[:1]:
            hand = entry.fields[b"h"].decode()
            await self.backend.route(0, [Again(entry, self.msg_id, 0, hand, LegState.RETURNED, 1, TO_AGENT)])

    async def succeed(self) -> None:
        await self._settle(success())

    async def _settle(self, answer: object) -> None:
        settlements = [
            Settlement(taken.msg_id, taken.leg, taken.hand, answer, "i1")  # type: ignore[arg-type]
            for taken in self.taken
        ]
        await self.backend.settle(0, AGENT, settlements)

    async def beat(self) -> None:
        await self.backend.beat(AGENT, "i1", b"{}")

    async def due(self) -> None:
        await self.backend.due(0)
        await self.backend.due(0, self.msg_id)

    async def look(self) -> None:
        await self.backend.inspect(0, self.msg_id, envelope=True)
        await self.drive.mail()
        await self.backend.changes("0-0", 0)
        await self.backend.snapshot()
        await self.backend.claim_work("router-1", 0, 1_000)
        await self.backend.own_work("router-1", 0)
        await self.backend.read_control("r1", 0)

    async def cancel(self) -> None:
        await self.backend.cancel(0, self.msg_id, "sender-1", 1, 0)

    async def close(self) -> None:
        await self.backend.close_inbox(0, AGENT)

    def steps(self) -> list[Callable[[], Awaitable[None]]]:
        return [
            *(
                self.keep,
                self.register,
                self.open,
                self.submit,
                self.read,
                self.route,
                self.ring,
                self.take,
                self.renew,
            ),
            *(self.progress, self.fail, self.ask, self.decide, self.take, self.beat, self.due, self.look, self.succeed),
            *(self.look, self.cancel, self.close),
        ]


STEPS = 21


def test_the_story_has_as_many_steps_as_are_parametrised() -> None:
    assert len(Story.steps(Story.__new__(Story))) == STEPS


@pytest.mark.parametrize("lost_after", range(STEPS))
async def test_forgetting_everything_between_two_steps(drive: Drive, lost_after: int) -> None:
    story = Story(drive)
    for number, step in enumerate(story.steps()):
        await step()
        if number == lost_after:
            await drive.place.forget_all()
    await drive.keep_box()
    await drive.backend.open_inbox(0, AGENT)
    await drive.mail()
    taken = await drive.running()
    assert await drive.settle(taken, success()) == "done"
    receipts = [receipt for receipt in await drive.receipts() if receipt["msg_id"] == taken.msg_id]
    assert [receipt["code"] for receipt in receipts] == ["ok"]


async def test_a_hand_from_before_proves_nothing_after(drive: Drive) -> None:
    taken = await drive.running()
    await drive.place.forget_all()
    await drive.keep_box()
    await drive.backend.open_inbox(0, AGENT)
    await drive.sent(msg_id=taken.msg_id)
    again = await drive.taken("i2")
    if again.hand != taken.hand:
        assert await drive.settle(taken, success()) == "stale"
    assert (await drive.leg(taken.msg_id)).instance == "i2"


async def test_the_versions_begin_anew_and_that_is_a_gap(drive: Drive) -> None:
    for agent in ("a1", "a2", "a3"):
        await drive.backend.register(agent, b"{}", "i1", b"{}", None)
    seen = await drive.backend.snapshot()
    await drive.place.forget_all()
    while await drive.backend.now_ms() <= int(seen.cursor.split("-")[0]):  # within one ms ids may be made twice
        pass
    await drive.backend.register("a9", b"{}", "i1", b"{}", None)
    (change,) = await drive.backend.changes(seen.cursor, 0)
    assert change.version == 1 != seen.version + 1


async def test_a_plan_for_an_inbox_that_was_forgotten_is_gone(drive: Drive) -> None:
    await drive.place.forget_all()
    entry = await drive.entry()
    _, result = await drive.send(Plan("deliver", AGENT), entry=entry)
    assert result.verdict == "gone"
