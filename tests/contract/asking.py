"""The moves of a message that asks: for the contract tests of park and answer."""

import json
from typing import Any

from reach.backend.steps import AnswerVerdict, Parking, SettleVerdict, Taken
from tests.contract.drive import AGENT, BOX, TO_AGENT, Drive

SENDER = "sender-1"
PROMPT = b'{"refund":500,"\xc3\xa9":"?"}'
DAY_MS = 24 * 3_600_000


async def park(drive: Drive, taken: Taken, **changes: Any) -> SettleVerdict:
    fields: dict[str, Any] = {"leg": taken.leg, "hand": taken.hand, "prompt": PROMPT, "instance": "i1"}
    return await drive.backend.park(0, AGENT, Parking(taken.msg_id, **fields | changes))


async def answer(
    drive: Drive, taken: Taken, value: bytes = b"true", sender: str = SENDER, hand: str = ""
) -> AnswerVerdict:
    return await drive.backend.answer(0, taken.msg_id, sender, taken.leg, hand or taken.hand, value)


async def notices(drive: Drive, kind: str = "input_required", box: str = BOX) -> list[dict[str, Any]]:
    told = [json.loads(mail.data) for mail in await drive.mail(box) if mail.kind == "notice"]
    return [notice for notice in told if notice["notice"] == kind]


async def later(drive: Drive, ms: int) -> None:
    """So much later, the mailbox kept all the while."""
    await drive.backend.keep_mailbox(BOX, [0], ms + DAY_MS)
    await drive.place.pass_time(ms)
    await drive.backend.due(0)


async def parked(drive: Drive, **head: Any) -> Taken:
    """A message that asks."""
    taken = await drive.running(**head)
    assert await park(drive, taken) == "done"
    await drive.work("again")
    return taken


async def resumed(drive: Drive, taken: Taken) -> Taken:
    """The same after its answer, running again."""
    assert await answer(drive, taken) == "done"
    await drive.decide(await drive.asked_again(), TO_AGENT)
    (again,) = (await drive.backend.take(0, AGENT, "i2", 1)).taken
    return again
