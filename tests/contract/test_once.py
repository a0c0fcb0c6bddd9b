"""once_take and once_end: the guard of one effect of a message."""

from reach.backend.bounds import ONCE_MS
from reach.backend.steps import Guard, Plan, Taken
from tests.contract.drive import TO_AGENT, Drive, retryable
from tests.contract.places import KEYS

LEASE_MS = 15_000
FINISH = Plan("finish", answer=retryable("handler.error"))


async def ask(drive: Drive, taken: Taken, owner: str, name: str = "book") -> Guard:
    return await drive.backend.once_take(0, taken.msg_id, taken.leg, taken.hand, name, owner, LEASE_MS)


async def end(drive: Drive, taken: Taken, owner: str, value: bytes, name: str = "book") -> bool:
    return await drive.backend.once_end(0, taken.msg_id, name, owner, value)


async def taken_again(drive: Drive, taken: Taken) -> Taken:
    """The same message in its next run."""
    assert await drive.settle(taken, retryable()) == "done"
    assert (await drive.decide(await drive.asked_again(), TO_AGENT)).verdict == "done"
    return await drive.taken()


async def test_the_first_has_it_and_its_result_is_kept(drive: Drive) -> None:
    taken = await drive.running()
    assert await ask(drive, taken, "one") == Guard("mine")
    assert await end(drive, taken, "one", b'["ok",7]') is True
    assert await ask(drive, taken, "two") == await ask(drive, taken, "one") == Guard("done", b'["ok",7]')


async def test_others_wait_for_the_lease_of_its_owner(drive: Drive) -> None:
    taken = await drive.running()
    await ask(drive, taken, "one")
    await drive.place.pass_time(5_000)
    other = await ask(drive, taken, "two")
    assert other.state == "taken"
    assert LEASE_MS - 7_000 < other.wait_ms <= LEASE_MS - 5_000
    assert await ask(drive, taken, "one") == Guard("mine"), "asked again by its owner it is renewed"
    assert (await ask(drive, taken, "two")).wait_ms > LEASE_MS - 2_000
    await drive.place.pass_time(LEASE_MS)
    assert await ask(drive, taken, "two") == Guard("mine")
    assert (await ask(drive, taken, "one")).state == "taken"


async def test_who_has_lost_it_ends_nothing(drive: Drive) -> None:
    taken = await drive.running()
    await ask(drive, taken, "one")
    await drive.place.pass_time(LEASE_MS)
    await ask(drive, taken, "two")
    assert await end(drive, taken, "one", b"1") is False
    assert await end(drive, taken, "one", b"") is False
    assert await end(drive, taken, "two", b"2") is True
    assert await end(drive, taken, "one", b"1") is False
    assert await ask(drive, taken, "three") == Guard("done", b"2")


async def test_ended_twice_is_ended_once(drive: Drive) -> None:
    taken = await drive.running()
    await ask(drive, taken, "one")
    assert await end(drive, taken, "one", b"1") is True
    assert await end(drive, taken, "one", b"1") is True
    assert await end(drive, taken, "one", b"2") is False, "the first result stands"
    assert await end(drive, taken, "one", b"") is False, "what is done is not freed"
    assert await ask(drive, taken, "one") == Guard("done", b"1")


async def test_a_freed_guard_is_for_the_next(drive: Drive) -> None:
    taken = await drive.running()
    await ask(drive, taken, "one")
    assert await end(drive, taken, "one", b"") is True
    assert await end(drive, taken, "one", b"") is True
    assert await drive.place.type_of(KEYS.once(0, taken.msg_id, "book")) == "none"
    assert await ask(drive, taken, "two") == Guard("mine")


async def test_only_the_holder_of_the_leg_may_begin(drive: Drive) -> None:
    taken = await drive.running()
    again = await taken_again(drive, taken)
    assert await ask(drive, taken, "zombie") == Guard("stale")
    assert await ask(drive, again, "next") == Guard("mine")
    unknown = await drive.backend.once_take(0, "no-such-message", 0, taken.hand, "book", "one", LEASE_MS)
    assert unknown == Guard("stale")
    assert await drive.backend.once_take(0, again.msg_id, 5, again.hand, "book", "one", LEASE_MS) != Guard("mine")


async def test_who_began_in_time_keeps_it_after_the_loss_of_the_leg(drive: Drive) -> None:
    taken = await drive.running()
    await ask(drive, taken, "one")
    again = await taken_again(drive, taken)
    assert await ask(drive, taken, "one") == Guard("mine"), "its effect is under way, whoever has the leg"
    assert (await ask(drive, again, "two")).state == "taken"
    assert await end(drive, taken, "one", b"1") is True
    assert await ask(drive, again, "two") == Guard("done", b"1")


async def test_each_name_is_a_guard_of_its_own(drive: Drive) -> None:
    taken = await drive.running()
    assert await ask(drive, taken, "one", "book") == await ask(drive, taken, "two", "mail") == Guard("mine")
    await end(drive, taken, "one", b"1", "book")
    assert (await ask(drive, taken, "three", "mail")).state == "taken"


async def test_a_lease_far_ahead_is_trusted_for_one_lease_and_no_longer(drive: Drive) -> None:
    """A step back of the clock by an hour."""
    taken = await drive.running()
    await ask(drive, taken, "one")
    await drive.backend.once_take(0, taken.msg_id, taken.leg, taken.hand, "book", "one", 3_600_000)
    assert (await ask(drive, taken, "two")).wait_ms == LEASE_MS
    await drive.place.pass_time(LEASE_MS)
    assert await ask(drive, taken, "two") == Guard("mine")


async def test_it_lives_longer_than_the_record(drive: Drive) -> None:
    taken = await drive.running()
    await ask(drive, taken, "one")
    key, record = KEYS.once(0, taken.msg_id, "book"), KEYS.message(0, taken.msg_id)
    lead_ms = await drive.place.ttl_ms(key) - await drive.place.ttl_ms(record)
    assert abs(lead_ms - ONCE_MS) < 1_000
    await end(drive, taken, "one", b"1")
    assert await drive.place.ttl_ms(key) - await drive.place.ttl_ms(record) > ONCE_MS - 1_000


async def test_a_spoilt_guard_is_made_anew(drive: Drive) -> None:
    taken = await drive.running()
    await drive.place.spoil(KEYS.once(0, taken.msg_id, "book"))
    assert await ask(drive, taken, "one") == Guard("mine")
    await drive.place.spoil(KEYS.once(0, taken.msg_id, "book"))
    assert await end(drive, taken, "one", b"1") is True
    assert await ask(drive, taken, "two") == Guard("done", b"1")


async def test_the_result_of_a_forgotten_guard_is_kept(drive: Drive) -> None:
    """The effect has happened, whatever Redis has forgotten meanwhile."""
    taken = await drive.running()
    await ask(drive, taken, "one")
    await drive.place.delete(KEYS.once(0, taken.msg_id, "book"))
    assert await end(drive, taken, "one", b"1") is True
    assert await ask(drive, taken, "two") == Guard("done", b"1")


async def test_who_is_told_the_result_keeps_it_as_long_as_its_own_round(drive: Drive) -> None:
    """A message whose every round ends retryable is asked again for hours: what its first run has done must still be known then."""
    taken = await drive.running()
    await ask(drive, taken, "one")
    await end(drive, taken, "one", b"1")
    guard, record = KEYS.once(0, taken.msg_id, "book"), KEYS.message(0, taken.msg_id)
    for round_ in (2, 3, 4):
        assert await drive.settle(taken, retryable()) == "done"
        assert (await drive.decide(await drive.asked_again(), FINISH)).verdict == "done"
        await drive.place.pass_time(50_000)
        taken = await drive.running(msg_id=taken.msg_id, round=round_)
        assert await ask(drive, taken, "two") == Guard("done", b"1")
        assert await drive.place.ttl_ms(guard) - await drive.place.ttl_ms(record) > ONCE_MS - 1_000
