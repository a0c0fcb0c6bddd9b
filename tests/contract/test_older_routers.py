"""A router that knows nothing of what scripts tell reads it as an empty answer, and applies that to nothing, wherever the message is."""

from collections.abc import Awaitable, Callable

import pytest

from reach.backend.steps import Plan, Settlement
from reach.delivery.answers import read_answer
from tests.contract.drive import TO_AGENT, Drive, failure, retryable, success
from tests.contract.places import KEYS

Way = Callable[[Drive], Awaitable[str]]
WAYS: dict[str, Way] = {}


def way(act: Way) -> Way:
    WAYS[act.__name__] = act
    return act


@way
async def succeeded(drive: Drive) -> str:
    taken = await drive.running()
    assert await drive.settle(taken, success(), records=False) == "done"
    return taken.msg_id


@way
async def failed(drive: Drive) -> str:
    taken = await drive.running()
    assert await drive.settle(taken, failure(), records=False) == "done"
    return taken.msg_id


@way
async def returned(drive: Drive) -> str:
    taken = await drive.running()
    assert await drive.settle(taken, retryable(), records=False) == "done"
    return taken.msg_id


@way
async def returned_for_nothing(drive: Drive) -> str:
    taken = await drive.running()
    assert await drive.settle(taken, retryable(), records=False, wait_ms=0) == "done"
    return taken.msg_id


@way
async def waits_for_its_next_run(drive: Drive) -> str:
    msg_id = await returned(drive)
    await drive.decide(await drive.asked_again(), Plan("delay", wait_ms=2_000))
    return msg_id


@way
async def queued_for_its_next_run(drive: Drive) -> str:
    msg_id = await returned(drive)
    assert (await drive.decide(await drive.asked_again(), TO_AGENT)).verdict == "done"
    return msg_id


@way
async def in_its_next_run(drive: Drive) -> str:
    msg_id = await queued_for_its_next_run(drive)
    await drive.taken()
    return msg_id


@way
async def cancelled_before_its_run(drive: Drive) -> str:
    msg_id = await drive.sent()
    assert (await drive.backend.cancel(0, msg_id, "sender-1", 1, 0)).what == "cancelled"
    return msg_id


@way
async def cancelled_in_its_run(drive: Drive) -> str:
    taken = await drive.running()
    assert (await drive.backend.cancel(0, taken.msg_id, "sender-1", 1, 0)).what == "cancelled"
    return taken.msg_id


@way
async def cancelled_while_it_waited(drive: Drive) -> str:
    msg_id = await waits_for_its_next_run(drive)
    assert (await drive.backend.cancel(0, msg_id, "sender-1", 1, 0)).what == "cancelled"
    return msg_id


@way
async def expired_in_the_inbox(drive: Drive) -> str:
    msg_id = await drive.sent(ttl_ms=1_000)
    await drive.place.pass_time(2_000)
    assert await drive.take() == []
    return msg_id


@way
async def ended_by_its_caller(drive: Drive) -> str:
    msg_id = await drive.sent()
    await drive.place.pass_time(31_000)
    await drive.backend.due(0, msg_id)
    return msg_id


@way
async def settled_too_late(drive: Drive) -> str:
    taken = await drive.running()
    await drive.place.pass_time(31_000)
    assert await drive.settle(taken, success(), records=False) == "stale"
    return taken.msg_id


@pytest.mark.parametrize("name", sorted(WAYS))
async def test_an_older_router_changes_nothing(drive: Drive, name: str) -> None:
    msg_id = await WAYS[name](drive)
    told = [fields for _, fields in await drive.place.entries(KEYS.receipts(0))]
    assert told
    assert all(fields.keys() == {b"m", b"l", b"h", b"t"} for fields in told)
    before, mail = await drive.backend.inspect(0, msg_id), await drive.place.entries(KEYS.mail(0, "box"))
    assert before is not None
    answer, wait_ms = read_answer(b"")
    for fields in told:
        leg, hand = int(fields[b"l"]), fields[b"h"].decode()
        known = before.legs[leg]
        if known.hand == hand and known.agent:
            settlement = Settlement(msg_id, leg, hand, answer, wait_ms=wait_ms)
            (verdict,) = await drive.backend.settle(0, known.agent, [settlement])
            assert verdict == ("done" if known.settled else "stale")  # done: a repeat of what was done
    after = await drive.backend.inspect(0, msg_id)
    assert after is not None
    assert (after.head, after.legs, after.receipts) == (before.head, before.legs, before.receipts)
    assert await drive.place.entries(KEYS.mail(0, "box")) == mail
