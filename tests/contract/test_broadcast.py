"""Scope all: a leg per agent, fixed at fan-out."""

import pytest

from reach.backend.steps import Plan
from reach.envelope.ledger import LegState
from tests.contract.drive import AGENT, ENVELOPE, Drive, failure, retryable, success
from tests.contract.places import KEYS

ALL = (Plan("deliver", "a1"), Plan("deliver", "a2"), Plan("deliver", "a3"))
LARGE = b'{"body":"' + b"x" * 30_000 + b'"}'


@pytest.fixture
async def three(drive: Drive) -> Drive:
    for agent in ("a2", "a3"):
        await drive.backend.open_inbox(0, agent)
    return drive


async def test_every_agent_has_a_leg_of_its_own(three: Drive) -> None:
    msg_id, result = await three.send(*ALL, scope="all")
    record = await three.backend.inspect(0, msg_id)
    assert result.verdict == "done"
    assert len(result.hands) == 3
    assert all(result.hands)
    assert record is not None
    assert {no: leg.agent for no, leg in record.legs.items()} == {0: "a1", 1: "a2", 2: "a3"}
    assert (record.head.open, record.head.legs) == (3, 3)
    assert await three.place.type_of(KEYS.message(0, msg_id)) == "hash"


async def test_the_notice_lists_the_legs(three: Drive) -> None:
    await three.sent(*ALL, scope="all")
    (notice,) = await three.notices()
    assert notice["scope"] == "all"
    assert [leg["agent"] for leg in notice["legs"]] == ["a1", "a2", "a3"]


async def test_each_leg_ends_with_one_receipt(three: Drive) -> None:
    msg_id = await three.sent(*ALL, scope="all")
    for no, agent in enumerate(("a1", "a2", "a3")):
        (taken,) = await three.take(agent=agent)
        assert (taken.leg, taken.envelope) == (no, ENVELOPE)
        assert await three.settle_as(agent, taken, success(str(no))) == "done"
        assert (await three.head(msg_id)).open == 2 - no
    receipts = await three.receipts()
    assert [(each["leg"], each["target_agent"], each["output"]) for each in receipts] == [
        (0, "a1", 0),
        (1, "a2", 1),
        (2, "a3", 2),
    ]
    assert await three.place.due() == {}


async def test_a_leg_whose_inbox_is_gone_ends_agent_lost(three: Drive) -> None:
    msg_id, result = await three.send(Plan("deliver", "a1"), Plan("deliver", "nobody"), scope="all")
    assert result.verdict == "done"
    receipt = await three.receipt()
    assert (receipt["leg"], receipt["code"], receipt["target_agent"]) == (1, "agent.lost", "nobody")
    assert (await three.head(msg_id)).open == 1


async def test_a_full_leg_waits(three: Drive) -> None:
    await three.sent()
    msg_id, result = await three.send(
        Plan("deliver", "a1", max_inbox=1), Plan("deliver", "a2", max_inbox=1), scope="all"
    )
    assert result.verdict == "done"
    waiting = await three.leg(msg_id, 0)
    assert (waiting.state, waiting.agent) == (LegState.WAITING, "a1")
    assert (await three.leg(msg_id, 1)).state is LegState.QUEUED
    await three.take()  # which makes room, and calls it
    assert (await three.decide(await three.asked_again(), Plan("deliver", "a1", max_inbox=1))).verdict == "done"
    assert (await three.leg(msg_id, 0)).state is LegState.QUEUED


async def test_all_inboxes_gone_ends_the_message(three: Drive) -> None:
    msg_id = await three.sent(Plan("deliver", "x1"), Plan("deliver", "x2"), scope="all")
    assert {each["code"] for each in await three.receipts()} == {"agent.lost"}
    assert (await three.head(msg_id)).open == 0
    assert await three.place.due() == {}


async def test_large_broadcasts_keep_their_bytes_once(three: Drive) -> None:
    msg_id = await three.sent(*ALL, scope="all", envelope=LARGE)
    ((_, fields),) = await three.inbox("a2")
    assert b"e" not in fields
    assert await three.bytes_of(msg_id) == LARGE
    (taken,) = await three.take(agent="a2")
    assert taken.envelope == LARGE
    await three.settle_as("a2", taken, success())
    (taken,) = await three.take(agent="a3")
    assert taken.envelope == LARGE


async def test_bytes_in_env_go_with_the_last_leg(three: Drive) -> None:
    msg_id = await three.sent(*ALL, scope="all", envelope=LARGE)
    for agent in ("a1", "a2", "a3"):
        assert await three.place.type_of(KEYS.envelope(0, msg_id)) == "string"
        (taken,) = await three.take(agent=agent)
        await three.settle_as(agent, taken, success())
    assert await three.place.type_of(KEYS.envelope(0, msg_id)) == "none"


async def test_one_leg_is_tried_again_while_the_others_go_on(three: Drive) -> None:
    msg_id = await three.sent(*ALL, scope="all")
    (taken,) = await three.take(agent="a2")
    await three.settle_as("a2", taken, retryable())
    entry = await three.asked_again()
    assert int(entry.fields[b"l"]) == 1
    assert (await three.decide(entry, Plan("deliver", "a2"))).verdict == "done"
    (again,) = await three.take(agent="a2")
    assert (again.leg, again.attempt, again.envelope) == (1, 2, ENVELOPE)
    assert (await three.leg(msg_id, 0)).attempt == 0


async def test_a_finished_leg_beside_a_delivered_one(three: Drive) -> None:
    msg_id = await three.sent(Plan("deliver", AGENT), Plan("finish", "a2", answer=failure("auth.denied")), scope="all")
    assert (await three.receipt())["code"] == "auth.denied"
    assert (await three.head(msg_id)).open == 1


async def test_cancel_ends_every_open_leg(three: Drive) -> None:
    msg_id = await three.sent(*ALL, scope="all")
    (taken,) = await three.take(agent="a1")
    await three.settle_as("a1", taken, success())
    await three.mail()
    result = await three.backend.cancel(0, msg_id, "sender-1", 1, 0)
    assert (result.what, result.closed) == ("cancelled", 2)
    assert [(each["leg"], each["code"]) for each in await three.receipts()] == [(1, "cancelled"), (2, "cancelled")]
    assert await three.inbox("a2") == []
