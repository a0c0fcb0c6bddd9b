"""What anybody can write into a stream, and what goes wrong inside a step: neither stops it, and nothing is lost."""

import json

import pytest

from reach.backend.keys import GROUP_AGENT, GROUP_ROUTERS
from reach.backend.steps import Again, Plan, Refuse
from reach.envelope.ledger import LegState
from tests.contract.drive import AGENT, BOX, ENVELOPE, TO_AGENT, Drive, new_id, success
from tests.contract.places import KEYS

INBOX = KEYS.inbox(0, AGENT, "normal")
NO_NUMBERS = ("nan", "-nan", "inf", "0x0", "1e3", "1.5", "-1", "", " 0", "²", "9" * 400, "9" * 5_000)


@pytest.mark.parametrize("scope", ["one", "all"])
@pytest.mark.parametrize("leg", NO_NUMBERS, ids=lambda leg: leg[:6] or "empty")
async def test_a_forged_leg_number_stops_no_agent(drive: Drive, leg: str, scope: str) -> None:
    running = await drive.running(scope=scope)
    await drive.place.append(INBOX, {"m": running.msg_id.encode(), "l": leg.encode(), "e": b"{}"})
    msg_id = await drive.sent()
    assert [taken.msg_id for taken in await drive.take()] == [msg_id]
    assert (await drive.backend.take(0, AGENT, "i1", 10, [(running.lane, running.hand)])).taken[0].msg_id == msg_id
    assert len(await drive.inbox()) == len(await drive.place.pending(INBOX, GROUP_AGENT)) == 2
    assert await drive.settle(running, success()) == "done"


@pytest.mark.parametrize("leg", NO_NUMBERS, ids=lambda leg: leg[:6] or "empty")
async def test_a_forged_leg_number_stops_no_closing(drive: Drive, leg: str) -> None:
    wide = await drive.sent(scope="all")
    await drive.place.append(INBOX, {"m": wide.encode(), "l": leg.encode()})
    assert await drive.backend.close_inbox(0, AGENT) is True
    assert (await drive.leg(wide)).state is LegState.RETURNED


# ---------------------------------------------------------------- what fails after it was acknowledged


async def nothing_pends(drive: Drive, key: str) -> None:
    assert await drive.place.entries(key) == []
    assert await drive.place.pending(key, GROUP_ROUTERS) == []


async def test_a_send_that_fails_after_its_acknowledgement_is_a_dead_letter(drive: Drive) -> None:
    entry, msg_id = await drive.entry(), new_id()
    await drive.mail()
    _, result = await drive.send(Plan("finish"), msg_id=msg_id, entry=entry)  # a plan that nobody can carry out
    assert result.verdict == "error"
    ((_, letter),) = await drive.backend.dead_letters(0)
    assert (letter[b"m"], letter[b"e"], letter[b"h"]) == (msg_id.encode(), ENVELOPE, b"[]")
    receipt = await drive.receipt()
    assert (receipt["code"], receipt["msg_id"], receipt["status"]) == ("backend.unavailable", msg_id, "retryable")
    assert json.loads(letter[b"r"]) == receipt
    await nothing_pends(drive, KEYS.ingress(0, "normal"))


@pytest.mark.parametrize("scope", ["one", "all"])
async def test_a_repeat_of_what_failed_half_way_runs_nothing_and_the_next_round_runs(drive: Drive, scope: str) -> None:
    await drive.backend.open_inbox(0, "a2")
    await drive.mail()
    msg_id, result = await drive.send(*[Plan("deliver", "a2")] * (scope == "all"), Plan("finish"), scope=scope)
    assert result.verdict == "error"
    told = await drive.receipts()
    assert {one["code"] for one in told} == {"backend.unavailable"}
    assert len(told) == (await drive.head(msg_id)).legs == (2 if scope == "all" else 1)
    assert (await drive.head(msg_id)).open == 0
    assert await drive.take(agent="a2") == []
    assert await drive.place.due() == {}
    _, result = await drive.send(msg_id=msg_id, scope=scope)
    assert (result.verdict, result.known) == ("done", "duplicate")
    assert [(one["code"], one["stored"]) for one in await drive.receipts()] == [("backend.unavailable", True)] * len(
        told
    )
    assert await drive.take() == []
    _, result = await drive.send(
        *[Plan("deliver", "a2")] * (scope == "all"), TO_AGENT, msg_id=msg_id, scope=scope, round=2
    )
    assert (result.verdict, result.known) == ("done", "")
    assert len(await drive.take(agent="a2" if scope == "all" else AGENT)) == 1


async def test_burying_it_again_changes_nothing(drive: Drive) -> None:
    entry = await drive.entry()
    await drive.send(Plan("finish"), entry=entry)
    assert (await drive.route(Refuse(entry, BOX, b"{}", {"m": b"", "e": ENVELOPE}))).verdict == "skipped"
    assert len(await drive.backend.dead_letters(0)) == 1


async def test_the_others_of_its_batch_are_applied(drive: Drive) -> None:
    broken, whole = new_id(), new_id()
    await drive.send(Plan("finish"), msg_id=broken)
    await drive.sent(msg_id=whole)
    assert (await drive.taken()).msg_id == whole


async def test_an_again_that_fails_after_its_acknowledgement_ends_its_leg(drive: Drive) -> None:
    msg_id, entry = await drive.returned()
    await drive.mail()
    assert (await drive.decide(entry, Plan("finish"))).verdict == "error"
    receipt = await drive.receipt()
    assert (receipt["code"], receipt["details"]["last_code"]) == ("backend.unavailable", "handler.error")
    assert (await drive.leg(msg_id)).state is LegState.EXPIRED
    ((_, letter),) = await drive.backend.dead_letters(0)
    assert (letter[b"m"], letter[b"e"]) == (msg_id.encode(), ENVELOPE)
    assert json.loads(letter[b"h"])[0]["code"] == "handler.error"
    await nothing_pends(drive, KEYS.again(0))
    assert await drive.place.due() == {}


async def test_what_has_failed_before_its_acknowledgement_is_buried_by_the_router(drive: Drive) -> None:
    entry = await drive.entry()
    refusal = Refuse(entry, BOX, b'{"x":1}', {"m": b"", "e": ENVELOPE, "r": b"{}", "h": b"[]"})
    assert (await drive.route(refusal)).verdict == "done"
    ((_, letter),) = await drive.backend.dead_letters(0)
    assert letter[b"e"] == ENVELOPE
    await nothing_pends(drive, KEYS.ingress(0, "normal"))


async def test_a_wide_broadcast_is_one_record(drive: Drive) -> None:
    """More legs than Lua can put on its stack at once."""
    msg_id, result = await drive.send(*[Plan("delay", f"a{n}", wait_ms=60_000) for n in range(9_000)], scope="all")
    assert result.verdict == "done", result.error
    assert (await drive.head(msg_id)).open == 9_000
    assert (await drive.leg(msg_id, 8_999)).state is LegState.WAITING
    assert (await drive.backend.cancel(0, msg_id, "sender-1", 1, 0)).closed == 9_000


async def test_a_caller_hears_of_every_leg_of_a_wide_broadcast_that_is_over(drive: Drive) -> None:
    msg_id = await drive.sent(
        *[Plan("delay", f"a{n}", wait_ms=60_000) for n in range(9_000)], scope="all", reply_to="", total_ms=1_000
    )
    await drive.place.pass_time(1_001)
    assert len((await drive.backend.due(0, msg_id)).events) == 9_000


async def test_a_duplicate_of_a_record_that_has_lost_legs_is_answered(drive: Drive) -> None:
    msg_id = await drive.sent(*[Plan("deliver", AGENT)] * 2, scope="all")
    await drive.place.lose_leg(KEYS.message(0, msg_id), 1)
    _, result = await drive.send(msg_id=msg_id, scope="all")
    assert (result.verdict, result.known) == ("done", "duplicate"), result.error
    assert await drive.backend.inspect(0, msg_id) is not None
    await drive.backend.cancel(0, msg_id, "sender-1", 1, 0)


async def test_an_again_for_a_leg_that_is_no_leg_is_silent(drive: Drive) -> None:
    msg_id = await drive.sent()
    await drive.place.append(KEYS.again(0), {"m": msg_id.encode(), "l": b"7", "h": b"0"})
    entry = await drive.asked_again()
    result = await drive.route(Again(entry, msg_id, 7, "0", LegState.RETURNED, 0, TO_AGENT))
    assert (result.verdict, result.known) == ("done", "silent")
