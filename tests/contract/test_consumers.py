"""Consumers of those who have gone: deleted, but never with what they hold."""

import pytest

from reach.backend.keys import GROUP_AGENT, GROUP_REGISTRARS, GROUP_ROUTERS, LANES
from reach.backend.steps import Plan
from tests.contract.drive import AGENT, TO_AGENT, Drive, success
from tests.contract.places import KEYS

INBOX = KEYS.inbox(0, AGENT, "normal")
INGRESS = KEYS.ingress(0, "normal")


async def test_an_instance_that_goes_is_taken_out_of_its_lanes(drive: Drive) -> None:
    for instance in ("i1", "i2"):
        await drive.sent(lane="low")
        await drive.sent()
        for taken in await drive.take(instance):
            await drive.settle(taken, success(), instance)
    await drive.backend.drop_consumer("i1", [0], AGENT)
    assert await drive.place.consumers(INBOX, GROUP_AGENT) == {"i2"}
    assert await drive.place.consumers(KEYS.inbox(0, AGENT, "low"), GROUP_AGENT) == {"i2"}
    await drive.backend.drop_consumer("i1", [0], AGENT)


async def test_with_what_it_holds_it_stays(drive: Drive) -> None:
    taken = await drive.running()
    await drive.backend.drop_consumer("i1", [0], AGENT)
    assert await drive.backend.sweep(0, AGENT, 0) == 0
    assert await drive.place.consumers(INBOX, GROUP_AGENT) == {"i1"}
    assert await drive.settle(taken, success()) == "done"
    assert await drive.backend.sweep(0, AGENT, 0) > 0
    assert await drive.place.consumers(INBOX, GROUP_AGENT) == set()


async def test_one_that_was_seen_of_late_is_not_swept(drive: Drive) -> None:
    await drive.settle(await drive.running(), success())
    assert await drive.backend.sweep(0, AGENT) == 0
    assert await drive.backend.sweep(0) == 0
    assert await drive.place.consumers(INBOX, GROUP_AGENT) == {"i1"}
    assert await drive.place.consumers(INGRESS, GROUP_ROUTERS) == {"router-1"}


async def test_one_that_was_deleted_reads_on(drive: Drive) -> None:
    await drive.settle(await drive.running(), success())
    await drive.backend.drop_consumer("i1", [0], AGENT)
    msg_id = await drive.sent()
    assert (await drive.taken()).msg_id == msg_id


async def test_a_worker_that_goes_is_taken_out_of_the_doors_and_of_control(drive: Drive) -> None:
    await drive.sent()
    entry_id = await drive.backend.send_control(b"{}")
    assert await drive.backend.read_control("router-1", 0)
    await drive.entry()  # which it holds
    await drive.backend.drop_consumer("router-1", [0])
    assert await drive.place.consumers(INGRESS, GROUP_ROUTERS) == {"router-1"}
    assert await drive.place.consumers(KEYS.control(), GROUP_REGISTRARS) == {"router-1"}
    await drive.backend.finish_control(entry_id)
    await drive.backend.finish_work(0, await drive.backend.own_work("router-1", 0))
    await drive.backend.drop_consumer("router-1", [0])
    assert await drive.place.consumers(INGRESS, GROUP_ROUTERS) == set()
    assert await drive.place.consumers(KEYS.control(), GROUP_REGISTRARS) == set()


@pytest.mark.parametrize("agent", ["", AGENT, "nobody"])
async def test_streams_that_are_missing_or_of_the_wrong_type_are_passed_over(drive: Drive, agent: str) -> None:
    for lane in LANES:
        await drive.place.spoil(KEYS.inbox(0, AGENT, lane))
    await drive.place.spoil(KEYS.again(0))
    assert await drive.backend.sweep(0, agent, 0) == 0
    await drive.backend.drop_consumer("i1", [0], agent)
    await drive.backend.open_inbox(0, AGENT)
    await drive.place.delete(KEYS.again(0))
    assert (await drive.send(TO_AGENT))[1].verdict == "done"


async def test_an_inbox_of_another_agent_is_not_looked_at(drive: Drive) -> None:
    await drive.backend.open_inbox(0, "a2")
    await drive.sent(Plan("deliver", "a2"))
    (taken,) = await drive.take("i1", agent="a2")
    await drive.settle_as("a2", taken, success())
    await drive.backend.drop_consumer("i1", [0], AGENT)
    assert await drive.place.consumers(KEYS.inbox(0, "a2", "normal"), GROUP_AGENT) == {"i1"}
