"""route: room and existence of the inbox are looked at before anything is written."""

from reach.backend.steps import Plan
from tests.contract.drive import AGENT, Drive, new_id
from tests.contract.places import KEYS


async def untouched(drive: Drive, msg_id: str, stream: str) -> None:
    assert await drive.backend.inspect(0, msg_id) is None
    assert await drive.place.due() == {}
    assert len(await drive.place.entries(stream)) == 1
    assert len(await drive.backend.own_work("router-1", 0)) == 1


async def test_a_full_inbox_changes_nothing(drive: Drive) -> None:
    await drive.sent()
    await drive.sent()
    await drive.backend.cancel(0, new_id(), "somebody", 1, 0)
    entry, msg_id = await drive.entry(), new_id()
    _, result = await drive.send(Plan("deliver", AGENT, max_inbox=2), entry=entry, msg_id=msg_id)
    assert result.verdict == "full"
    assert await drive.backend.inspect(0, msg_id) is None
    assert len(await drive.inbox()) == 2
    assert [each.id for each in await drive.backend.own_work("router-1", 0)] == [entry.id]


async def test_room_for_one_more_is_room(drive: Drive) -> None:
    await drive.sent()
    await drive.sent(Plan("deliver", AGENT, max_inbox=2), sender="sender-2")
    assert len(await drive.inbox()) == 2


async def test_no_bound_means_no_bound(drive: Drive) -> None:
    for _ in range(5):
        await drive.sent(Plan("deliver", AGENT, max_inbox=0))
    assert len(await drive.inbox()) == 5


async def test_a_missing_inbox_is_gone_and_changes_nothing(drive: Drive) -> None:
    entry, msg_id = await drive.entry(), new_id()
    _, result = await drive.send(Plan("deliver", "nobody"), entry=entry, msg_id=msg_id)
    assert result.verdict == "gone"
    await untouched(drive, msg_id, entry.stream)
    assert await drive.place.type_of(KEYS.inbox(0, "nobody", "normal")) == "none"


async def test_an_inbox_of_the_wrong_type_is_gone_and_opening_heals_it(drive: Drive) -> None:
    await drive.place.spoil(KEYS.inbox(0, AGENT, "normal"))
    entry, msg_id = await drive.entry(), new_id()
    _, result = await drive.send(entry=entry, msg_id=msg_id)
    assert result.verdict == "gone"
    await untouched(drive, msg_id, entry.stream)
    await drive.backend.open_inbox(0, AGENT)
    _, result = await drive.send(entry=entry, msg_id=msg_id)
    assert result.verdict == "done"


async def test_the_same_entry_can_be_decided_again(drive: Drive) -> None:
    entry, msg_id = await drive.entry(), new_id()
    await drive.send(Plan("deliver", "nobody"), entry=entry, msg_id=msg_id)
    _, result = await drive.send(Plan("deliver", AGENT), entry=entry, msg_id=msg_id)
    assert result.verdict == "done"
    assert (await drive.taken()).msg_id == msg_id


async def test_room_is_asked_of_a_retry_too(drive: Drive) -> None:
    _, entry = await drive.returned()
    await drive.sent(sender="sender-2")
    assert (await drive.decide(entry, Plan("deliver", AGENT, max_inbox=1))).verdict == "full"
    assert (await drive.decide(entry, Plan("deliver", "nobody"))).verdict == "gone"
    assert (await drive.decide(entry, Plan("deliver", AGENT, max_inbox=2))).verdict == "done"
