"""spend_rate: no minute has more than a limit and what was saved up, over all routers, whatever the clock does."""

import random

import pytest

from reach.envelope.registration import Rate
from tests.contract.drive import AGENT, Drive
from tests.contract.places import KEYS

BUCKET = KEYS.rate(AGENT)
SIX = Rate(6_000, 0)  # messages a minute: one in ten seconds


async def spent(drive: Drive, rate: Rate, times: int, tokens: int = 0) -> int:
    """How many of so many asks, one after the other, were granted."""
    return [await drive.backend.spend_rate(AGENT, rate, tokens) for _ in range(times)].count(0)


def near(wait_ms: int, wanted_ms: int) -> bool:
    """A real server's clock goes on between two steps."""
    return wanted_ms - 1_000 < wait_ms <= wanted_ms


async def test_a_full_bucket_has_a_minutes_worth_and_then_says_when(drive: Drive) -> None:
    assert await spent(drive, SIX, 7) == 6
    assert near(await drive.backend.spend_rate(AGENT, SIX, 0), 10_000)


async def test_it_fills_evenly_and_never_over_its_brim(drive: Drive) -> None:
    assert await spent(drive, SIX, 6) == 6
    await drive.place.pass_time(20_000)
    assert await spent(drive, SIX, 4) == 2
    await drive.place.pass_time(86_400_000)
    assert await spent(drive, SIX, 8) == 6


async def test_after_the_wait_that_it_names_there_is_one(drive: Drive) -> None:
    await spent(drive, SIX, 6)
    await drive.place.pass_time(await drive.backend.spend_rate(AGENT, SIX, 0))
    assert await drive.backend.spend_rate(AGENT, SIX, 0) == 0


async def test_tokens_are_a_bound_of_their_own(drive: Drive) -> None:
    rate = Rate(0, 6_000)
    assert await spent(drive, rate, 2, tokens=2_500) == 2
    assert near(await drive.backend.spend_rate(AGENT, rate, 2_500), 15_000)
    assert await drive.backend.spend_rate(AGENT, rate, 1_000) == 0


async def test_of_two_bounds_both_hold_and_a_refusal_takes_of_neither(drive: Drive) -> None:
    rate = Rate(6_000, 6_000)
    assert await spent(drive, rate, 1, tokens=6_000) == 1
    assert await spent(drive, rate, 3, tokens=6_000) == 0
    assert await spent(drive, rate, 9) == 5, "five messages were left, and nothing was spent by those that were refused"


async def test_what_needs_more_than_a_minutes_tokens_takes_all_of_them(drive: Drive) -> None:
    rate = Rate(0, 1_000)
    assert await spent(drive, rate, 2, tokens=50_000) == 1
    assert near(await drive.backend.spend_rate(AGENT, rate, 50_000), 60_000)


async def test_less_than_one_a_minute_is_one_at_a_time(drive: Drive) -> None:
    rate = Rate(500, 0)
    assert await spent(drive, rate, 2) == 1
    assert near(await drive.backend.spend_rate(AGENT, rate, 0), 120_000)


async def test_no_bound_is_asked_for_nothing_and_kept_nowhere(drive: Drive) -> None:
    assert await spent(drive, Rate(0, 0), 100, tokens=100) == 100
    assert await drive.place.type_of(BUCKET) == "none"


async def test_what_came_to_nothing_is_given_back_and_never_more(drive: Drive) -> None:
    rate = Rate(6_000, 6_000)
    await spent(drive, rate, 6, tokens=1_000)
    assert await drive.backend.spend_rate(AGENT, rate, 1_000, back=True) == 0
    assert await spent(drive, rate, 2, tokens=1_000) == 1
    await drive.place.pass_time(60_000)
    await drive.backend.spend_rate(AGENT, rate, 1_000, back=True)
    assert await spent(drive, rate, 7) == 6


async def test_two_routers_have_one_bucket(drive: Drive) -> None:
    other = await drive.place.connect()
    granted = [await backend.spend_rate(AGENT, SIX, 0) for _ in range(5) for backend in (drive.backend, other)].count(0)
    assert granted == 6


async def test_in_no_minute_is_there_more_than_the_limit_and_what_was_saved_up(drive: Drive) -> None:
    backends, rng = (drive.backend, await drive.place.connect()), random.Random(7)
    at_ms, granted = 0, []
    for n in range(300):
        step_ms = rng.choice((0, 0, 0, 500, 3_000, 20_000))
        await drive.place.pass_time(step_ms)
        at_ms += step_ms
        if not await backends[n % 2].spend_rate(AGENT, SIX, 0):
            granted.append(at_ms)
    most = max(sum(start <= each < start + 60_000 for each in granted) for start in granted)
    assert 6 < most <= 12
    assert len(granted) <= 6 + at_ms * 6 / 60_000 + 1


async def test_a_clock_that_steps_back_fills_nothing_and_holds_up_nobody(drive: Drive) -> None:
    await spent(drive, SIX, 6)
    await drive.place.pass_time(-3_600_000)
    assert near(await drive.backend.spend_rate(AGENT, SIX, 0), 10_000)
    await drive.place.pass_time(10_000)
    assert await spent(drive, SIX, 3) == 1


async def test_a_bucket_that_nobody_uses_goes_when_it_is_full(drive: Drive) -> None:
    await spent(drive, SIX, 1)
    assert 59_000 < await drive.place.ttl_ms(BUCKET) <= 60_000
    await spent(drive, Rate(500, 0), 1)
    assert 100_000 < await drive.place.ttl_ms(BUCKET) <= 120_000


@pytest.mark.parametrize("field", ["at", "m"])
async def test_junk_in_a_bucket_counts_as_a_full_one(drive: Drive, field: str) -> None:
    await spent(drive, SIX, 6)
    await drive.place.set_field(BUCKET, field, b"lots")
    assert await spent(drive, SIX, 7) == 6


async def test_a_bucket_of_another_type_is_made_anew(drive: Drive) -> None:
    await drive.place.spoil(BUCKET)
    assert await spent(drive, SIX, 7) == 6


async def test_a_limit_that_is_lowered_holds_at_once(drive: Drive) -> None:
    await spent(drive, Rate(600_000, 0), 1)
    assert await spent(drive, SIX, 8) == 6
