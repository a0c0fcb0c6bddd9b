"""Hints: what a cancel takes out of an inbox its holder hears of, if it listens. They prove nothing, and may be lost."""

import pytest

from reach.backend.hinting import Hint
from reach.backend.steps import Plan
from tests.contract.drive import AGENT, Drive, new_id, success
from tests.contract.places import KEYS, Place

CHANNEL = KEYS.hint(0, AGENT)


async def cancel(drive: Drive, msg_id: str, sender: str = "sender-1", round: int = 1) -> str:
    return (await drive.backend.cancel(0, msg_id, sender, round, 0)).what


async def heard(drive: Drive, agent_id: str = AGENT) -> list[Hint]:
    """What has come, and waits for it where something must."""
    return await drive.backend.hear(agent_id, 0)


async def test_the_holder_of_a_running_one_hears_of_its_cancel(drive: Drive) -> None:
    taken = await drive.running()
    assert await heard(drive) == []
    assert await cancel(drive, taken.msg_id) == "cancelled"
    assert await drive.backend.hear(AGENT, 5_000) == [Hint(0, "normal", taken.hand)]
    assert await heard(drive) == []


async def test_so_does_one_that_reads_its_inbox_without_scripts(drive: Drive) -> None:
    """It reads an entry that the ledger has as queued."""
    await heard(drive)
    msg_id = await drive.sent()
    (entry_id,) = await drive.place.read_plain(KEYS.inbox(0, AGENT, "normal"), "agent", "plain")
    await cancel(drive, msg_id)
    assert await drive.backend.hear(AGENT, 5_000) == [Hint(0, "normal", entry_id)]


async def test_many_are_heard_at_once(drive: Drive) -> None:
    await heard(drive)
    sent = [await drive.sent() for _ in range(5)]
    for msg_id in sent:
        await cancel(drive, msg_id)
    found: list[Hint] = []
    while len(found) < len(sent):
        found += await drive.backend.hear(AGENT, 5_000)
    assert len({hint.hand for hint in found}) == len(sent)


async def test_nothing_is_said_of_what_lies_in_no_inbox(drive: Drive) -> None:
    await heard(drive)
    waiting = await drive.sent(Plan("delay", wait_ms=9_000))
    returned, _ = await drive.returned()
    ended = await drive.running()
    await drive.settle(ended, success())
    for msg_id in (waiting, returned, ended.msg_id, new_id()):
        await cancel(drive, msg_id)
    assert await heard(drive) == []


@pytest.mark.parametrize(("sender", "round"), [("sender-2", 1), ("sender-1", 1)])
async def test_nothing_is_said_by_a_cancel_that_does_nothing(drive: Drive, sender: str, round: int) -> None:
    await heard(drive)
    msg_id = await drive.sent(round=2)
    assert await cancel(drive, msg_id, sender, round) in {"denied", "newer"}
    assert await heard(drive) == []


async def test_each_agent_of_a_broadcast_hears_of_its_own(drive: Drive) -> None:
    others = [await drive.place.connect() for _ in range(2)]
    agents = [AGENT, "a2"]
    for agent_id, backend in zip(agents, others, strict=True):
        await backend.open_inbox(0, agent_id)
        assert await backend.hear(agent_id, 0) == []
    msg_id, result = await drive.send(Plan("deliver", AGENT), Plan("deliver", "a2"), scope="all")
    assert result.verdict == "done"
    hands = [(await drive.leg(msg_id, number)).hand for number in range(2)]
    await cancel(drive, msg_id)
    for agent_id, backend, hand in zip(agents, others, hands, strict=True):
        assert await backend.hear(agent_id, 5_000) == [Hint(0, "normal", hand)]


async def test_what_was_said_before_anybody_listened_is_lost(drive: Drive) -> None:
    taken = await drive.running()
    await cancel(drive, taken.msg_id)
    assert await heard(drive) == []


async def test_who_listens_is_woken(drive: Drive) -> None:
    """One backend for all partitions, and the wait ends with what comes."""
    taken = await drive.running()
    other = await drive.place.connect()
    await other.hear(AGENT, 0)
    await cancel(drive, taken.msg_id)
    assert await other.hear(AGENT, 60_000) == [Hint(0, "normal", taken.hand)]


async def test_all_partitions_are_heard(place: Place) -> None:
    one = await Drive.start(place)
    await one.backend.set_meta("meta", "partitions", b"3")
    backend = await place.connect()
    assert await backend.hear(AGENT, 0) == []
    for partition in range(3):
        await place.say(KEYS.hint(partition, AGENT), b"high:5-1")
        assert await backend.hear(AGENT, 5_000) == [Hint(partition, "high", "5-1")]


@pytest.mark.parametrize("junk", [b"", b"normal", b"5-1", b"other:5-1", b"\xff\xfe:1-1", b"x" * 100_000], ids=repr)
async def test_junk_is_no_hint(drive: Drive, junk: bytes) -> None:
    await heard(drive)
    await drive.place.say(CHANNEL, junk)
    await drive.place.say(CHANNEL, b"low:7-7")
    found: list[Hint] = []
    while not found:
        found = await drive.backend.hear(AGENT, 5_000)
    assert found == [Hint(0, "low", "7-7")]


async def test_a_hint_changes_nothing(drive: Drive) -> None:
    taken = await drive.running()
    await heard(drive)
    await drive.place.say(CHANNEL, f"normal:{taken.hand}".encode())
    assert await drive.backend.hear(AGENT, 5_000) == [Hint(0, "normal", taken.hand)]
    assert await drive.backend.renew(0, AGENT, "i1", {"normal": [taken.hand]}) == {taken.hand}
    assert await drive.settle(taken, success()) == "done"
