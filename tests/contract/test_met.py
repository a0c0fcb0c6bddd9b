"""meet, met: whom a source and its conversations have met; for an hour, and never more than so much."""

import pytest

from reach.backend.bounds import MAX_MET
from reach.backend.steps import Meeting, Met
from tests.contract.drive import Drive
from tests.contract.places import KEYS

KEY = KEYS.met("s")
HOUR_MS = 3_600_000


async def met(drive: Drive, stamp: str, source: str = "s") -> set[tuple[str, bool]]:
    (found,) = await drive.backend.met([(source, stamp)])
    return {(one.agent, one.here) for one in found}


async def test_nobody_has_met_anybody_at_first(drive: Drive) -> None:
    assert await drive.backend.met([("s", "c0"), ("t", "c0")]) == [[], []]
    assert await drive.place.type_of(KEY) == "none", "to ask writes nothing"


async def test_a_source_knows_whom_it_has_met_and_each_conversation_its_own(drive: Drive) -> None:
    await drive.backend.meet([Meeting("s", "c0", "a1"), Meeting("s", "c1", "a2"), Meeting("t", "c0", "a3")])
    assert await met(drive, "c0") == {("a1", False), ("a2", False), ("a1", True)}
    assert await met(drive, "c1") == {("a1", False), ("a2", False), ("a2", True)}
    assert await met(drive, "c2") == {("a1", False), ("a2", False)}
    assert await met(drive, "c0", "t") == {("a3", False), ("a3", True)}


async def test_many_are_asked_for_and_written_down_in_one_step(drive: Drive) -> None:
    await drive.backend.meet([Meeting("s", f"c{n}", f"a{n}") for n in range(250)])
    found = await drive.backend.met([("s", f"c{n}") for n in range(250)])
    assert [[one.agent for one in known if one.here] for known in found] == [[f"a{n}"] for n in range(250)]
    assert await drive.backend.met([]) == []


async def test_another_router_is_told_the_same_with_the_moment(drive: Drive) -> None:
    before_ms = await drive.backend.now_ms()
    await drive.backend.meet([Meeting("s", "c0", "a1")])
    after_ms = await drive.backend.now_ms()
    other = await drive.place.connect()
    (found,) = await other.met([("s", "c0")])
    assert [(one.agent, one.here) for one in found] == [("a1", False), ("a1", True)]
    assert all(before_ms <= one.at_ms <= after_ms for one in found)


async def test_after_an_hour_it_is_forgotten(drive: Drive) -> None:
    await drive.backend.meet([Meeting("s", "c0", "a1")])
    assert HOUR_MS - 1_000 < await drive.place.ttl_ms(KEY) <= HOUR_MS
    await drive.place.pass_time(HOUR_MS // 2)
    await drive.backend.meet([Meeting("s", "c0", "a2")])
    await drive.place.pass_time(HOUR_MS // 2 + 1_000)
    assert await met(drive, "c0") == {("a2", False), ("a2", True)}
    await drive.backend.meet([Meeting("s", "c0", "a3")])
    assert (await drive.place.scores(KEY)).keys() == {"a2", "a2 c0", "a3", "a3 c0"}
    await drive.place.pass_time(HOUR_MS + 1_000)
    assert await drive.place.type_of(KEY) == "none"


async def test_of_too_many_the_oldest_go(drive: Drive) -> None:
    await drive.backend.meet([Meeting("s", "c0", "first")])
    await drive.place.pass_time(10)
    await drive.backend.meet([Meeting("s", "c0", f"a{n:04}") for n in range(MAX_MET // 2)])
    assert len(await drive.place.scores(KEY)) == MAX_MET
    assert not {one for one in await met(drive, "c0") if one[0] == "first"}


async def test_once_more_is_the_later_moment(drive: Drive) -> None:
    await drive.backend.meet([Meeting("s", "c0", "a1")])
    await drive.place.pass_time(5_000)
    await drive.backend.meet([Meeting("s", "c0", "a1")])
    (found,) = await drive.backend.met([("s", "c0")])
    assert [(one.agent, one.here) for one in found] == [("a1", False), ("a1", True)]
    lately_ms = await drive.backend.now_ms() - 3_000
    assert all(one.at_ms > lately_ms for one in found)


@pytest.mark.parametrize("member", ["", "two words here", "{x}", "a1 zz", "\xe4"])
async def test_what_strangers_write_there_is_nobody(drive: Drive, member: str) -> None:
    await drive.backend.meet([Meeting("s", "c1", "a9")])
    await drive.place.put_score(KEY, member, await drive.backend.now_ms())
    assert await met(drive, "c0") == {("a9", False)}


async def test_a_key_of_another_type_is_made_anew(drive: Drive) -> None:
    await drive.place.spoil(KEY)
    assert await drive.backend.met([("s", "c0")]) == [[]]
    await drive.place.spoil(KEY)
    await drive.backend.meet([Meeting("s", "c0", "a1")])
    assert isinstance((await drive.backend.met([("s", "c0")]))[0][0], Met)
