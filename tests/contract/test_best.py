"""min_confidence: an answer that is not sure enough is kept while one other agent is asked, and survives every end but a cancel."""

import json
from typing import Any

import pytest

from reach.backend.keys import GROUP_AGENT
from reach.backend.steps import Answer, Plan, Taken
from reach.envelope.ledger import LegState
from tests.contract.drive import AGENT, TO_AGENT, Drive, failure, retryable
from tests.contract.places import KEYS

WANTED = 0.8
TO_OTHER = Plan("deliver", "a2")


def sure(confidence: float | None, output: str = "1.0") -> Answer:
    core = {"status": "success", "code": "ok", "output": json.loads(output), "error_message": None, "schema": None}
    core |= {"processing_host": None, "confidence": confidence, "partial": False, "cost": None, "via": None}
    return Answer("success", "ok", json.dumps(core | {"retry_after_ms": None}, separators=(",", ":")))


async def kept(drive: Drive, confidence: float = 0.4, output: str = '"first"', **options: Any) -> Taken:
    """A message whose first answer was not sure enough, with a2 open beside a1."""
    await drive.backend.open_inbox(0, "a2")
    taken = await drive.running(min_confidence=WANTED, **options)
    assert await drive.settle(taken, sure(confidence, output)) == "done"
    return taken


async def asked(drive: Drive) -> Taken:
    """... and the other agent that runs it now."""
    first = await kept(drive)
    assert (await drive.decide(await drive.asked_again(), TO_OTHER)).verdict == "done"
    (second,) = await drive.take("i2", agent="a2")
    assert second.msg_id == first.msg_id
    return second


async def receipt(drive: Drive) -> tuple[Any, ...]:
    told = await drive.receipt()
    return (
        told["status"],
        told["output"],
        told["confidence"],
        told["partial"],
        told["target_agent"],
        told["target_instance"],
    )


FIRST = ("success", "first", 0.4, True, AGENT, "i1")


@pytest.mark.parametrize("confidence", [0.8, 1, None])
async def test_a_sure_answer_ends_it(drive: Drive, confidence: float | None) -> None:
    taken = await drive.running(min_confidence=WANTED)
    assert await drive.settle(taken, sure(confidence)) == "done"
    assert await receipt(drive) == ("success", 1.0, confidence, False, AGENT, "i1")


@pytest.mark.parametrize("confidence", [0, 0.4, -1])
async def test_an_unsure_one_comes_back_at_once_and_counts_as_a_run(drive: Drive, confidence: float) -> None:
    taken = await kept(drive, confidence)
    leg = await drive.leg(taken.msg_id)
    assert (leg.state, leg.attempt, leg.tried, leg.wait_ms) == (LegState.RETURNED, 1, (AGENT,), -1)
    assert leg.best is not None
    assert (leg.best.confidence, leg.best.agent, leg.best.instance) == (max(confidence, 0), AGENT, "i1")
    assert await drive.receipts() == []
    assert await drive.settle(taken, sure(confidence)) == "done", "the same once more"
    assert await drive.settle(taken, sure(0.9), "i2") == "stale"


async def test_without_a_wish_no_answer_is_unsure(drive: Drive) -> None:
    taken = await drive.running()
    assert await drive.settle(taken, sure(0)) == "done"
    assert await receipt(drive) == ("success", 1.0, 0, False, AGENT, "i1")


@pytest.mark.parametrize(
    ("second", "told"),
    [
        (sure(0.9, '"second"'), ("success", "second", 0.9, False, "a2", "i2")),
        (sure(None, '"second"'), ("success", "second", None, False, "a2", "i2")),
        (sure(0.5, '"second"'), ("success", "second", 0.5, True, "a2", "i2")),
        (sure(0.4, '"second"'), ("success", "second", 0.4, True, "a2", "i2")),
        (sure(0.3, '"second"'), FIRST),
        (failure(), FIRST),
        (retryable(), FIRST),
    ],
)
async def test_the_better_of_the_two_ends_it(drive: Drive, second: Answer, told: tuple[Any, ...]) -> None:
    taken = await asked(drive)
    assert await drive.settle_as("a2", taken, second, "i2") == "done"
    assert await receipt(drive) == told
    leg = await drive.leg(taken.msg_id)
    assert (leg.state, leg.attempts, leg.best) == (LegState.DONE, 2, None)
    assert await drive.settle_as("a2", taken, second, "i2") == "done", "the same once more"
    assert await drive.work("again") == []
    assert await drive.place.due() == {}


async def test_a_wait_that_the_second_asks_for_is_an_end_too(drive: Drive) -> None:
    taken = await asked(drive)
    assert await drive.settle_as("a2", taken, retryable("handler.retry"), "i2", wait_ms=1_000) == "done"
    assert await receipt(drive) == FIRST


async def test_the_second_that_is_lost_leaves_the_first(drive: Drive) -> None:
    taken = await asked(drive)
    await drive.live(20_000)
    assert await receipt(drive) == FIRST
    assert (await drive.leg(taken.msg_id)).attempts == 2


async def test_the_second_whose_entry_is_nobodys_was_asked(drive: Drive) -> None:
    """Somebody acknowledged it by hand: it looks undelivered, but the ledger knows that it runs."""
    taken = await asked(drive)
    await drive.place.acknowledge(KEYS.inbox(0, "a2", "normal"), GROUP_AGENT, taken.hand)
    assert await drive.backend.close_inbox(0, "a2") is True
    assert await receipt(drive) == FIRST


async def test_an_inbox_that_vanishes_under_the_second_leaves_the_first(drive: Drive) -> None:
    taken = await asked(drive)
    await drive.place.delete(KEYS.inbox(0, "a2", "normal"))
    await drive.live(20_000)
    assert await receipt(drive) == FIRST
    assert (await drive.leg(taken.msg_id)).state == LegState.DONE


@pytest.mark.parametrize("begin", [kept, asked])
async def test_total_ends_with_the_best(drive: Drive, begin: Any) -> None:
    taken = await begin(drive)
    for _ in range(3):
        await drive.keep_box()
        await drive.live(11_000, renew=(taken.hand,))
    assert await receipt(drive) == FIRST


async def test_an_answer_past_total_ends_as_due_would(drive: Drive) -> None:
    taken = await asked(drive)
    await drive.place.pass_time(31_000)
    assert await drive.settle_as("a2", taken, sure(0.9), "i2") == "stale"
    assert await receipt(drive) == FIRST


async def test_an_entry_that_nobody_took_in_time_ends_with_the_best(drive: Drive) -> None:
    await kept(drive)
    assert (await drive.decide(await drive.asked_again(), TO_OTHER)).verdict == "done"
    await drive.place.pass_time(31_000)
    assert await drive.take("i2", agent="a2") == []
    assert await receipt(drive) == FIRST


async def test_an_untaken_entry_that_comes_back_is_no_end(drive: Drive) -> None:
    taken = await kept(drive)
    assert (await drive.decide(await drive.asked_again(), TO_OTHER)).verdict == "done"
    assert await drive.backend.close_inbox(0, "a2") is True
    leg = await drive.leg(taken.msg_id)
    assert (leg.state, leg.best is not None) == (LegState.RETURNED, True)
    await drive.backend.open_inbox(0, "a3")
    assert (await drive.decide(await drive.asked_again(), Plan("deliver", "a3"))).verdict == "done"
    (third,) = await drive.take("i3", agent="a3")
    assert await drive.settle_as("a3", third, sure(0.9, '"third"'), "i3") == "done"
    assert await receipt(drive) == ("success", "third", 0.9, False, "a3", "i3")


@pytest.mark.parametrize("dead", [False, True])
async def test_a_router_that_finds_nobody_ends_it_with_the_best(drive: Drive, dead: bool) -> None:
    await kept(drive)
    plan = Plan("finish", answer=retryable("route.no_candidate"), dead=dead)
    assert (await drive.decide(await drive.asked_again(), plan)).verdict == "done"
    assert await receipt(drive) == FIRST
    assert await drive.backend.dead_letters(0) == [], "a success is no dead letter"


async def test_a_cancel_is_the_one_end_that_it_does_not_survive(drive: Drive) -> None:
    taken = await asked(drive)
    assert (await drive.backend.cancel(0, taken.msg_id, "sender-1", 1, 0)).what == "cancelled"
    assert (await drive.receipt())["code"] == "cancelled"


async def test_a_leg_of_a_broadcast_is_its_agents_alone(drive: Drive) -> None:
    msg_id = await drive.sent(TO_AGENT, scope="all", min_confidence=WANTED)
    (taken,) = await drive.take()
    assert await drive.settle(taken, sure(0.4, '"first"')) == "done"
    assert await receipt(drive) == FIRST
    assert (await drive.leg(msg_id)).state == LegState.DONE


async def test_where_the_bytes_are_lost_nobody_else_can_be_asked(drive: Drive) -> None:
    taken = await drive.running(min_confidence=WANTED)
    await drive.place.remove(KEYS.inbox(0, AGENT, "normal"), taken.hand)
    assert await drive.settle(taken, sure(0.4, '"first"')) == "done"
    assert await receipt(drive) == FIRST


async def test_only_the_member_partial_is_changed_whatever_the_output_looks_like(drive: Drive) -> None:
    output = '{"partial":false,"confidence":0.99,"text":"\\"partial\\":false"}'
    taken = await kept(drive, output=output)
    plan = Plan("finish", answer=retryable("route.no_candidate"))
    await drive.decide(await drive.asked_again(), plan)
    told = await drive.receipt()
    assert (told["output"], told["partial"], told["confidence"]) == (json.loads(output), True, 0.4)
    assert taken.attempt == 1


async def test_a_short_answer_by_hand_is_weighed_too(drive: Drive) -> None:
    await drive.backend.open_inbox(0, "a2")
    taken = await drive.running(min_confidence=WANTED)
    short = Answer("success", "", '{ "confidence" : 0.4 , "output":"first" }')
    assert await drive.settle(taken, short) == "done"
    assert (await drive.leg(taken.msg_id)).best is not None


@pytest.mark.parametrize(
    ("written", "is_sure"),
    [
        *[
            (number, False)
            for number in ("0.4", "4e-1", "4E-1", "0.04e+1", "0", "-0", "-0.0", "-1e999", "0." + "4" * 997)
        ],
        *[
            (number, True)
            for number in ("0.80", "8", "1e999", "1" + "0" * 400, "0.9e0", "null", "true", '"0.4"', "[0.4]")
        ],
        # No JSON, though some readers would take it; and what is too long to be looked at.
        *[
            (text, True)
            for text in (
                "0.",
                "00.4",
                "-00",
                "0.e1",
                "0.4.",
                "0.4e",
                "4e-",
                "0x0",
                "nan",
                "NaN",
                "Infinity",
                "-Infinity",
                "inf",
                "",
                "+1",
                "-",
                "0." + "4" * 1_000,
            )
        ],
    ],
)
async def test_what_is_no_number_says_nothing(drive: Drive, written: str, is_sure: bool) -> None:
    core = sure(None).core.replace('"confidence":null', f'"confidence":{written}')
    taken = await drive.running(min_confidence=WANTED)
    assert await drive.settle(taken, Answer("success", "ok", core)) == "done"
    assert ((await drive.leg(taken.msg_id)).state is LegState.DONE) is is_sure


async def test_how_long_it_took_is_of_the_run_whose_answer_it_is(drive: Drive) -> None:
    await drive.backend.open_inbox(0, "a2")
    first = await drive.running(min_confidence=WANTED)
    await drive.place.pass_time(1_500)
    await drive.settle(first, sure(0.4))
    await drive.decide(await drive.asked_again(), TO_OTHER)
    (second,) = await drive.take("i2", agent="a2")
    await drive.place.pass_time(4_000)
    await drive.settle_as("a2", second, failure(), "i2")
    told = await drive.receipt()
    assert (1_500 <= told["duration_ms"] < 4_000, told["attempts"]) == (True, 2)


async def test_a_decision_that_fails_half_way_leaves_it_and_no_dead_letter(drive: Drive) -> None:
    await kept(drive)
    assert (await drive.decide(await drive.asked_again(), Plan("finish"))).verdict == "error"
    assert await receipt(drive) == FIRST
    assert await drive.backend.dead_letters(0) == []


@pytest.mark.parametrize("what", ["expired", "reclaimed"])
async def test_due_tells_whose_answer_has_ended_it(drive: Drive, what: str) -> None:
    taken = await asked(drive)
    found = [event for event in await drive.live(20_000) if event.msg_id == taken.msg_id]
    if what == "expired":
        await kept(drive)
        found = [event for event in await drive.live(31_000) if event.msg_id != taken.msg_id and event.what != "again"]
    told = [
        (event.what, event.agent, event.instance, event.attempt, event.code) for event in found if event.what != "again"
    ]
    answered = ("answered", AGENT, "i1", 1, "ok")
    assert told == ([answered] if what == "expired" else [("reclaimed", "a2", "i2", 2, "agent.lost"), answered])


async def test_a_round_that_begins_anew_is_weighed_anew(drive: Drive) -> None:
    """What a former round had kept is gone: nothing of it is left in the next."""
    await drive.backend.open_inbox(0, "a2")
    first = await drive.running(min_confidence=WANTED, total_ms=10_000, ttl_ms=10_000)
    await drive.place.pass_time(11_000)
    await drive.backend.due(0)
    assert (await drive.receipt())["code"] == "timeout.total"
    await drive.sent(msg_id=first.msg_id, round=2, min_confidence=WANTED)
    again = await drive.taken()
    assert await drive.settle(again, sure(0.4, '"first"')) == "done"
    assert (await drive.decide(await drive.asked_again(), TO_OTHER)).verdict == "done"
    (second,) = await drive.take("i2", agent="a2")
    assert await drive.settle_as("a2", second, failure(), "i2") == "done"
    assert await receipt(drive) == FIRST
    assert (await drive.send(msg_id=first.msg_id, round=3, min_confidence=WANTED))[1].known == "duplicate"
    assert (await drive.receipt())["stored"] is True, "a success is not opened again"


async def test_a_cancel_leaves_nothing_of_it(drive: Drive) -> None:
    taken = await asked(drive)
    await drive.backend.cancel(0, taken.msg_id, "sender-1", 1, 0)
    leg = await drive.leg(taken.msg_id)
    assert (leg.best, leg.by_agent, leg.state) == (None, "", LegState.CANCELLED)


async def test_a_plain_reader_that_is_lost_was_asked(drive: Drive) -> None:
    """It was handed over: who reads by XREADGROUP has begun, though the ledger has it queued."""
    await kept(drive)
    await drive.decide(await drive.asked_again(), TO_OTHER)
    assert await drive.place.read_plain(KEYS.inbox(0, "a2", "normal"), GROUP_AGENT, "plain")
    await drive.live(20_000)
    assert await receipt(drive) == FIRST


async def test_a_second_that_hands_it_back_to_a_removed_inbox_was_asked(drive: Drive) -> None:
    await asked(drive)
    await drive.place.pass_time(16_000)
    assert await drive.backend.close_inbox(0, "a2") is True
    assert await receipt(drive) == FIRST


@pytest.mark.parametrize(
    ("output", "text"),
    [
        *[
            (output, text)
            for output in ('"first"', '[{"confidence":0.9,"x":1}]')
            for text in ("", "é" * 120, "é" * 400)
        ],
        ('{"a":' * 3, "é" * 100),
    ],
    ids=range(7),
)
async def test_it_is_found_at_the_end_whatever_stands_before(drive: Drive, text: str, output: str) -> None:
    """In what our own agents write no output is looked at, since a long one would hold up everybody: not even one that is no JSON."""
    core = sure(None).core.replace('"output":1.0', f'"output":{output}')
    core = core.replace('"error_message":null', f'"error_message":"{text}"').replace(
        '"confidence":null', '"confidence":0.4'
    )
    taken = await drive.running(min_confidence=WANTED)
    assert await drive.settle(taken, Answer("success", "ok", core)) == "done"
    best = (await drive.leg(taken.msg_id)).best
    assert best is not None
    assert (best.confidence, best.core) == (0.4, core.replace('"partial":false', '"partial":true'))
