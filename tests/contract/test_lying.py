"""route says how many messages lie with the agent that it has handed one: so routers know how full it is, whoever has sent them."""

from reach.backend.steps import Plan
from tests.contract.drive import AGENT, TO_AGENT, Drive, success


async def test_each_hand_over_says_how_many_lie_there(drive: Drive) -> None:
    assert [(await drive.send())[1].lying for _ in range(3)] == [1, 2, 3]


async def test_over_all_lanes_and_whoever_has_sent_them(drive: Drive) -> None:
    await drive.send(lane="high", sender="sender-2")
    _, result = await drive.send(lane="low")
    assert result.lying == 2


async def test_what_runs_counts_and_what_has_ended_does_not(drive: Drive) -> None:
    await drive.send()
    taken = await drive.taken()
    assert (await drive.send())[1].lying == 2
    await drive.settle(taken, success())
    assert (await drive.send())[1].lying == 2


async def test_another_router_is_told_the_same(drive: Drive) -> None:
    await drive.send()
    other = await drive.place.connect()
    drive.backend = other
    assert (await drive.send())[1].lying == 2


async def test_what_is_handed_to_nobody_says_nothing(drive: Drive) -> None:
    entry = await drive.entry()
    msg_id, _ = await drive.send(entry=entry)
    assert (await drive.send(entry=entry, msg_id=msg_id))[1].lying == 0, "skipped"
    assert (await drive.send(msg_id=msg_id))[1].lying == 0, "a duplicate"
    assert (await drive.send(Plan("delay", wait_ms=1_000)))[1].lying == 0
    assert (await drive.send(Plan("deliver", "nobody")))[1].lying == 0, "its inbox is gone"


async def test_a_broadcast_says_nothing_since_nobody_was_chosen(drive: Drive) -> None:
    await drive.backend.open_inbox(0, "a2")
    _, result = await drive.send(TO_AGENT, Plan("deliver", "a2"), scope="all")
    assert (result.verdict, result.lying) == ("done", 0)
    assert len(await drive.inbox(AGENT)) == 1
