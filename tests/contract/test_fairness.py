"""One noisy sender does not starve another: who has little in an inbox goes past who has much (docs/decisions/0015)."""

from typing import Any

import pytest

from reach.backend.steps import Plan, Send
from reach.envelope.ledger import LegState
from tests.contract.drive import AGENT, BOX, ENVELOPE, TO_AGENT, Drive, head_of, new_id, retryable, success
from tests.contract.places import KEYS

MANY, FEW = 32, 4


async def backlog(drive: Drive, count: int, *, sender: str = "noisy", **head: Any) -> None:
    """So many of one sender in the inbox."""
    for _ in range(count):
        await drive.backend.submit(0, "normal", ENVELOPE)
    while entries := await drive.work("ingress"):
        decisions = []
        for entry in entries:
            msg_id = new_id()
            made = head_of(msg_id, **{"sender": sender, "total_ms": 600_000, "ttl_ms": 600_000} | head)
            decisions.append(Send(entry, msg_id, made, (TO_AGENT,), ENVELOPE, BOX))
        assert {result.verdict for result in await drive.backend.route(0, decisions)} == {"done"}


async def runs_before(drive: Drive, msg_id: str, most: int = 2_000) -> int:
    """How many runs an agent with one slot makes before this message's."""
    for runs in range(most):
        taken = (await drive.backend.take(0, AGENT, "i1", 1, turn=runs)).taken[0]
        if taken.msg_id == msg_id:
            return runs
        assert await drive.settle(taken, success()) == "done"
    raise AssertionError(f"not within {most} runs")


async def test_behind_a_thousand_of_another_sender_it_waits_for_next_to_none(drive: Drive) -> None:
    await backlog(drive, 1_000)
    msg_id = await drive.sent(sender="quiet")
    assert await runs_before(drive, msg_id) <= 1
    later = await drive.sent(sender="quiet")
    assert await runs_before(drive, later) <= 1, "also the next one, while the noisy sender goes on"


async def test_however_many_small_senders_there_are_the_bound_is_told(drive: Drive) -> None:
    await backlog(drive, 300)
    small = [await drive.sent(sender=f"quiet-{n}") for n in range(2 * MANY)]
    lanes = [(await drive.head(msg_id)).lane for msg_id in small]
    assert lanes == ["high"] * MANY + ["normal"] * MANY, "so many go past, and no more: high stays a lane for few"
    assert await runs_before(drive, small[MANY - 1]) <= MANY + MANY // 8 + 1


async def test_the_noisy_sender_goes_on_meanwhile(drive: Drive) -> None:
    await backlog(drive, 100)
    for n in range(16):
        await drive.sent(sender=f"quiet-{n}")
    taken = await drive.take(free=16)
    senders = [(await drive.head(each.msg_id)).sender for each in taken]
    assert senders.count("noisy") == 2, "every eighth is looked for in the lowest lane first"


async def test_low_goes_up_to_normal_and_high_stays(drive: Drive) -> None:
    await backlog(drive, MANY, lane="low")
    assert (await drive.head(await drive.sent(sender="quiet", lane="low"))).lane == "normal"
    await backlog(drive, MANY, lane="high")
    assert (await drive.head(await drive.sent(sender="quiet", lane="high"))).lane == "high"


async def test_who_has_much_itself_and_who_meets_no_crowd_stays_where_it_is(drive: Drive) -> None:
    await backlog(drive, MANY - 1)
    assert (await drive.head(await drive.sent(sender="quiet"))).lane == "normal", "no crowd"
    await backlog(drive, 1)
    assert (await drive.head(await drive.sent(sender="noisy"))).lane == "normal", "its own crowd"
    lanes = [(await drive.head(await drive.sent(sender="quiet"))).lane for _ in range(FEW)]
    assert lanes == ["high"] * (FEW - 1) + ["normal"], "no sender has more than a few there"


async def test_a_crowd_of_many_small_senders_keeps_its_order(drive: Drive) -> None:
    for n in range(2 * MANY):
        await drive.sent(sender=f"quiet-{n}")
    assert (await drive.head(await drive.sent(sender="late"))).lane == "normal"


async def test_what_runs_is_no_crowd(drive: Drive) -> None:
    await backlog(drive, MANY + 8)
    await drive.take(free=MANY)
    assert (await drive.head(await drive.sent(sender="quiet"))).lane == "normal", "eight are queued"


async def test_a_broadcast_and_a_retry_stay_in_their_lane(drive: Drive) -> None:
    _, entry = await drive.returned(sender="quiet", total_ms=600_000)
    await backlog(drive, MANY)
    assert (await drive.decide(entry, TO_AGENT)).verdict == "done"
    msg_id = entry.fields[b"m"].decode()
    assert (await drive.head(msg_id)).lane == "normal", "its ids must not come from two lanes"
    wide = await drive.sent(sender="other", scope="all")
    assert (await drive.head(wide)).lane == "normal", "its legs share a lane"


async def test_what_went_up_is_taken_renewed_returned_and_settled_there(drive: Drive) -> None:
    await backlog(drive, MANY)
    msg_id = await drive.sent(sender="quiet", total_ms=600_000)
    (taken,) = await drive.take(free=1)
    assert (taken.msg_id, taken.lane) == (msg_id, "high")
    assert await drive.backend.renew(0, AGENT, "i1", {"high": [taken.hand]}) == {taken.hand}
    assert await drive.settle(taken, retryable()) == "done"
    assert (await drive.decide(await drive.asked_again(), TO_AGENT)).verdict == "done"
    (again,) = await drive.take(free=1)
    assert (again.msg_id, again.lane, again.attempt) == (msg_id, "high", 2)
    assert await drive.settle(again, success()) == "done"
    assert await drive.inbox(lane="high") == []
    assert (await drive.leg(msg_id)).state is LegState.DONE


async def test_what_waited_first_goes_up_at_its_first_hand_over(drive: Drive) -> None:
    msg_id = await drive.sent(Plan("delay", wait_ms=100), sender="quiet", total_ms=600_000)
    await backlog(drive, MANY)
    await drive.place.pass_time(200)
    await drive.backend.due(0)
    assert (await drive.decide(await drive.asked_again(), TO_AGENT)).verdict == "done"
    assert (await drive.head(msg_id)).lane == "high"


@pytest.mark.parametrize("how", ["delete", "spoil"])
async def test_a_lane_above_that_is_gone_is_not_used(drive: Drive, how: str) -> None:
    await backlog(drive, MANY)
    await getattr(drive.place, how)(KEYS.inbox(0, AGENT, "high"))
    assert (await drive.head(await drive.sent(sender="quiet"))).lane == "normal"
    await drive.place.delete(KEYS.inbox(0, AGENT, "high"))
