"""Registrations, beats, changes, settings, leases of services."""

import asyncio
import json

import pytest

from reach.backend.scripts import script
from reach.backend.steps import LastBeat, MetaKind, RegisterResult, Written
from reach.errors import BackendError
from tests.contract.drive import Drive
from tests.contract.places import KEYS, RedisPlace

NEVER = 1 << 52  # no beat is as late as that
CARD = b'{"agent_id":"a1","capabilities":[{"name":"refund"}]}'
READY, BUSY = b'{"state":"ready","load":1}', b'{"state":"busy"}'


async def registered(drive: Drive, agent: str = "a1", instance: str = "i1") -> bytes:
    result = await drive.backend.register(agent, CARD, instance, READY, None, ["request"])
    assert result.ok
    stored, _ = await drive.backend.registration(agent)
    assert stored is not None
    return stored


# ---------------------------------------------------------------- register


async def test_a_registration_is_stored_with_its_version(drive: Drive) -> None:
    assert await drive.backend.register("a1", CARD, "i1", READY, None, ["request", "market.news"]) == RegisterResult(
        True, 1
    )
    stored, beats = await drive.backend.registration("a1")
    assert json.loads(stored or b"") == json.loads(CARD) | {"v": 1}
    assert set(beats) == {"i1"}
    assert abs(beats["i1"] - await drive.backend.now_ms()) < 2_000
    snapshot = await drive.backend.snapshot()
    assert snapshot.agents == {"a1": stored}
    assert snapshot.types == {"request", "market.news"}
    assert snapshot.version == 1


async def test_it_is_told_in_one_change_entry(drive: Drive) -> None:
    stored = await registered(drive)
    (change,) = await drive.backend.changes("0-0", 0)
    assert (change.version, change.op, change.name, change.data) == (1, "agent", "a1", stored)


async def test_how_the_instance_is_that_registers_is_told_with_it(drive: Drive) -> None:
    stored = await registered(drive)
    (change,) = await drive.backend.changes("0-0", 0)
    _, [last] = await drive.backend.last_beats(0)
    assert change.beat == last == LastBeat("a1", "i1", last.at_ms, READY)
    await drive.backend.beat("a1", "i1", BUSY)
    assert (await drive.backend.register("a1", CARD, "i1", READY, stored)).ok
    _, [last] = await drive.backend.last_beats(0)
    told = (await drive.backend.changes("0-0", 0))[-1]
    assert told.beat == last == LastBeat("a1", "i1", last.at_ms, BUSY), "it says itself how it is"
    assert (await drive.backend.register("a1", CARD, "", READY, told.data)).ok
    assert (await drive.backend.changes("0-0", 0))[-1].beat is None, "of no instance there is nothing to tell"


async def test_who_read_something_else_changes_nothing(drive: Drive) -> None:
    stored = await registered(drive)
    for expected in (None, b"{}", stored + b" "):
        result = await drive.backend.register("a1", b'{"agent_id":"a1","x":1}', "i2", READY, expected)
        assert result == RegisterResult(False, 1)
    assert await drive.backend.registration("a1") == (stored, (await drive.backend.registration("a1"))[1])
    assert len(await drive.backend.changes("0-0", 0)) == 1


async def test_who_read_the_stored_one_may_change_it(drive: Drive) -> None:
    stored = await registered(drive)
    result = await drive.backend.register("a1", b'{"agent_id":"a1","weight":2}', "i2", READY, stored)
    assert result == RegisterResult(True, 2)
    changed, beats = await drive.backend.registration("a1")
    assert json.loads(changed or b"") == {"agent_id": "a1", "weight": 2, "v": 2}
    assert set(beats) == {"i1", "i2"}


async def test_expected_but_absent_is_refused(drive: Drive) -> None:
    assert (await drive.backend.register("a1", CARD, "i1", READY, b"{}")).ok is False
    assert (await drive.backend.registration("a1"))[0] is None


async def test_a_second_run_is_refused_and_writes_nothing(drive: Drive) -> None:
    await registered(drive)
    assert (await drive.backend.register("a1", CARD, "i1", READY, None)).ok is False
    assert (await drive.backend.snapshot()).version == 1


async def test_a_removed_agent_is_absent_and_told(drive: Drive) -> None:
    stored = await registered(drive)
    assert await drive.backend.remove("a1", stored, NEVER, "left")
    assert await drive.backend.registration("a1") == (None, {})
    snapshot = await drive.backend.snapshot()
    assert snapshot.agents == {}
    assert (await drive.backend.last_beats(0))[1] == []
    change = (await drive.backend.changes("0-0", 0))[-1]
    assert (change.version, change.op, change.name) == (2, "gone", "a1")
    assert await drive.backend.remove("a1", stored, NEVER, "left")
    assert len(await drive.backend.changes("0-0", 0)) == 2


async def test_a_removal_needs_what_was_read(drive: Drive) -> None:
    await registered(drive)
    assert not await drive.backend.remove("a1", b"{}", NEVER, "left")
    assert (await drive.backend.registration("a1"))[0] is not None


async def test_a_removed_agent_may_come_back(drive: Drive) -> None:
    stored = await registered(drive)
    await drive.backend.remove("a1", stored, NEVER, "left")
    assert (await drive.backend.register("a1", CARD, "i9", READY, None)).ok
    assert set((await drive.backend.registration("a1"))[1]) == {"i9"}


async def test_what_is_no_object_is_refused(drive: Drive) -> None:
    with pytest.raises(BackendError):
        await drive.backend.register("a1", b"junk", "i1", READY, None)
    assert (await drive.backend.registration("a1"))[0] is None


async def test_an_empty_object_gets_its_version(drive: Drive) -> None:
    await drive.backend.register("a1", b" { } ", "", b"", None)
    assert json.loads((await drive.backend.registration("a1"))[0] or b"") == {"v": 1}


# ---------------------------------------------------------------- beats


async def test_a_beat_has_the_moment_of_the_backend(drive: Drive) -> None:
    await registered(drive)
    result = await drive.backend.beat("a1", "i1", READY)
    assert result.known
    now_ms, (last,) = await drive.backend.last_beats(0)
    assert (last.agent_id, last.instance_id, last.beat) == ("a1", "i1", READY)
    assert last.at_ms == result.now_ms <= now_ms


async def test_a_beat_without_a_registration_is_told_so(drive: Drive) -> None:
    assert (await drive.backend.beat("a1", "i1", READY)).known is False
    assert (await drive.backend.last_beats(0))[1] == []
    stored = await registered(drive)
    await drive.backend.remove("a1", stored, NEVER, "left")
    assert (await drive.backend.beat("a1", "i1", READY)).known is False


async def test_the_registration_alone(drive: Drive) -> None:
    assert await drive.backend.registered("a1") is None
    stored = await registered(drive)
    assert await drive.backend.registered("a1") == stored
    await drive.backend.remove("a1", stored, NEVER, "left")
    assert await drive.backend.registered("a1") is None
    await drive.place.delete(KEYS.agents())
    await drive.place.spoil(KEYS.agents())
    assert await drive.backend.registered("a1") is None


async def test_an_instance_that_beats_already_keeps_its_beat_when_it_registers(drive: Drive) -> None:
    stored = await registered(drive)
    await drive.backend.beat("a1", "i1", BUSY)
    assert (await drive.backend.register("a1", CARD, "i1", READY, stored)).ok
    (last,) = (await drive.backend.last_beats(0))[1]
    assert last.beat == BUSY


@pytest.mark.parametrize("state", ["not_ready", "draining"])
async def test_who_takes_no_work_may_say_so_before_it_registers(drive: Drive, state: str) -> None:
    beat = f'{{"state":"{state}"}}'.encode()
    result = await drive.backend.beat("a1", "i1", beat)
    assert result.known is False
    assert await drive.backend.changes("0-0", 0) == []  # nobody is told of an agent that there is not
    await registered(drive)
    (last,) = (await drive.backend.last_beats(0))[1]
    assert (last.beat, last.at_ms) == (beat, result.now_ms)
    assert [change.op for change in await drive.backend.changes("0-0", 0)] == ["agent"]


async def test_a_change_of_state_is_told_and_a_beat_like_the_last_is_not(drive: Drive) -> None:
    await registered(drive)
    cursor = (await drive.backend.snapshot()).cursor
    await drive.backend.beat("a1", "i1", b'{"load":50}')  # no state: ready, as before
    assert await drive.backend.changes(cursor, 0) == []
    await drive.backend.beat("a1", "i1", BUSY)
    await drive.backend.beat("a1", "i1", b'{"load":3, "state" : "busy"}')
    (change,) = await drive.backend.changes(cursor, 0)
    assert (change.op, change.name, change.data) == ("state", "a1/i1", BUSY)


async def test_the_first_beat_of_another_instance_is_told(drive: Drive) -> None:
    await registered(drive)
    cursor = (await drive.backend.snapshot()).cursor
    await drive.backend.beat("a1", "i2", READY)
    assert [(change.op, change.name) for change in await drive.backend.changes(cursor, 0)] == [("state", "a1/i2")]


async def test_beats_since_a_moment(drive: Drive) -> None:
    await registered(drive)
    await registered(drive, "a2")
    await drive.place.pass_time(10_000)
    since_ms = (await drive.backend.beat("a2", "i1", READY)).now_ms
    assert [last.agent_id for last in (await drive.backend.last_beats(since_ms))[1]] == ["a2"]
    assert [last.agent_id for last in (await drive.backend.last_beats(since_ms - 11_000))[1]] == ["a1", "a2"]


async def test_overdue_beats_are_the_silent_ones(drive: Drive) -> None:
    await registered(drive)
    await registered(drive, "a2")
    await drive.place.pass_time(15_001)
    now_ms = (await drive.backend.beat("a2", "i1", READY)).now_ms
    ((agent, instance, at_ms),) = await drive.backend.overdue_beats(now_ms - 15_000)
    assert (agent, instance) == ("a1", "i1")
    assert at_ms <= now_ms - 15_001


async def test_an_instance_that_leaves_is_forgotten(drive: Drive) -> None:
    await registered(drive)
    await drive.backend.beat("a1", "i2", READY)
    cursor = (await drive.backend.snapshot()).cursor
    assert await drive.backend.leave("a1", "i1") is False
    assert await drive.backend.leave("a1", "i1") is False
    assert [(change.op, change.name) for change in await drive.backend.changes(cursor, 0)] == [("gone", "a1/i1")]
    assert set((await drive.backend.registration("a1"))[1]) == {"i2"}
    assert await drive.backend.leave("a1", "i2") is True
    assert (await drive.backend.registration("a1"))[0] is not None


async def test_names_that_begin_alike_are_not_mixed_up(drive: Drive) -> None:
    await registered(drive, "a")
    await registered(drive, "a-b")
    await registered(drive, "a.b")
    assert set((await drive.backend.registration("a"))[1]) == {"i1"}
    assert await drive.backend.leave("a", "i1") is True
    assert (await drive.backend.registration("a-b"))[1] != {}


async def test_many_instances_are_all_seen(drive: Drive) -> None:
    await registered(drive, "a1", "i0")
    for number in range(1, 40):
        await drive.backend.beat("a1", f"i{number}", READY)
    assert len((await drive.backend.registration("a1"))[1]) == 40
    assert len((await drive.backend.last_beats(0))[1]) == 40


# ---------------------------------------------------------------- changes and settings


async def test_versions_have_no_gaps(drive: Drive) -> None:
    await registered(drive)
    await drive.backend.beat("a1", "i1", BUSY)
    await drive.backend.set_meta("routes", "capability:refund", b'{"strategy":"direct"}')
    await drive.backend.leave("a1", "i1")
    versions = [change.version for change in await drive.backend.changes("0-0", 0)]
    assert versions == [1, 2, 3, 4]
    assert (await drive.backend.snapshot()).version == 4


async def test_what_changes_after_a_snapshot_lies_behind_its_cursor(drive: Drive) -> None:
    await registered(drive)
    snapshot = await drive.backend.snapshot()
    assert await drive.backend.changes(snapshot.cursor, 0) == []
    await registered(drive, "a2")
    (change,) = await drive.backend.changes(snapshot.cursor, 0)
    assert (change.name, change.version) == ("a2", snapshot.version + 1)


async def test_a_change_wakes_a_waiting_reader(drive: Drive) -> None:
    async with asyncio.TaskGroup() as group:
        waiting = group.create_task(drive.backend.changes("0-0", 5_000))
        await asyncio.sleep(0)
        await registered(drive)
    assert [change.op for change in waiting.result()] == ["agent"]
    assert await drive.backend.changes(waiting.result()[-1].id, 20) == []


async def test_the_last_possible_id_in_changes_is_a_gap_and_not_the_end(drive: Drive) -> None:
    await registered(drive)
    cursor = await drive.place.append(KEYS.changes(), {"v": b"9"}, "18446744073709551615-18446744073709551615")
    await registered(drive, "a2")
    changes = await drive.backend.changes(cursor, 0)
    assert [(change.version, change.name) for change in changes] == [(2, "a2")]


@pytest.mark.parametrize(("kind", "op"), [("meta", "meta"), ("routes", "route"), ("types", "type"), ("rules", "rule")])
async def test_a_setting_is_written_told_and_removed(drive: Drive, kind: str, op: str) -> None:
    await drive.backend.set_meta(kind, "name", b"5")  # type: ignore[arg-type]
    snapshot = await drive.backend.snapshot()
    assert "name" in getattr(snapshot, kind)
    (change,) = await drive.backend.changes("0-0", 0)
    assert (change.op, change.name, change.data) == (op, "name", b"5")
    await drive.backend.set_meta(kind, "name", None)  # type: ignore[arg-type]
    assert "name" not in getattr(await drive.backend.snapshot(), kind)
    assert (await drive.backend.changes(change.id, 0))[0].data == b""


async def test_who_does_not_say_what_he_has_read_writes_whatever_lies_there(drive: Drive) -> None:
    """The last two arguments of the script may be left out, as by whoever knew it before it had them."""
    for value in (b"1", b"2"):
        if isinstance(drive.place, RedisPlace):
            argv = ("meta", "name", 1, value)
            assert int(await drive.place.raw.eval(script("set_meta").text, 1, KEYS.agents(), *argv)) > 0
        else:
            await drive.backend.set_meta("meta", "name", value)
        assert (await drive.backend.snapshot()).meta["name"] == value.decode()


@pytest.mark.parametrize("kind", ["meta", "routes", "types", "rules"])
async def test_a_setting_is_written_only_over_what_was_read(drive: Drive, kind: MetaKind) -> None:
    assert await drive.backend.swap_meta(kind, "name", b"1", None)
    told = [change.data for change in await drive.backend.changes("0-0", 0)]
    for expected in (None, b"", b"2", b"11"):
        assert not await drive.backend.swap_meta(kind, "name", b"3", expected)
        assert not await drive.backend.swap_meta(kind, "name", None, expected)
    assert [change.data for change in await drive.backend.changes("0-0", 0)] == told == [b"1"], "nothing was written"
    assert await drive.backend.swap_meta(kind, "name", b"2", b"1")
    assert not await drive.backend.swap_meta(kind, "name", b"2", b"1"), "once more: somebody else may have written it"
    assert await drive.backend.swap_meta(kind, "name", None, b"2")
    assert await drive.backend.swap_meta(kind, "name", b"", None)
    assert not await drive.backend.swap_meta(kind, "name", b"4", None), "a value with nothing in it is there"
    assert [change.data for change in await drive.backend.changes("0-0", 0)] == [b"1", b"2", b"", b""]


async def test_the_counter_of_versions_is_nobodys_setting(drive: Drive) -> None:
    await registered(drive)
    with pytest.raises(BackendError):
        await drive.backend.set_meta("meta", "v", b"1")
    with pytest.raises(BackendError):
        await drive.backend.swap_meta("meta", "v", b"9", b"1")
    assert (await drive.backend.snapshot()).meta == {}


async def test_partitions_are_read_at_open(drive: Drive) -> None:
    assert drive.backend.partitions == 1
    await drive.backend.set_meta("meta", "partitions", b"4")
    other = await drive.place.connect()
    assert other.partitions == 4


async def test_an_empty_env_has_an_empty_snapshot(drive: Drive) -> None:
    snapshot = await drive.backend.snapshot()
    assert (snapshot.version, snapshot.agents, snapshot.routes, snapshot.types, snapshot.meta) == (
        *(0, {}, {}, frozenset()),
        {},
    )
    assert snapshot.cursor == "0-0"


# ---------------------------------------------------------------- leases of services


async def test_one_owner_has_the_lease(drive: Drive) -> None:
    assert await drive.backend.lock("reaper", "w1", 2_000) is True
    assert await drive.backend.lock("reaper", "w2", 2_000) is False
    assert await drive.backend.lock("reaper", "w1", 2_000) is True
    assert await drive.backend.lock("registrar", "w2", 2_000) is True


async def test_B011_a_lease_ends_by_itself(drive: Drive) -> None:
    """A dead owner holds nothing up."""
    await drive.backend.lock("reaper", "w1", 2_000)
    assert 0 < await drive.place.ttl_ms(KEYS.lock("reaper")) <= 2_000
    await drive.place.pass_time(2_001)
    assert await drive.backend.lock("reaper", "w2", 2_000) is True
    assert await drive.backend.lock("reaper", "w1", 2_000) is False


async def test_what_is_written_down_for_the_env_is_read_as_it_stands(drive: Drive) -> None:
    rule = b'{"source":"a","target":"*","effect":"deny"}'
    await registered(drive)
    for kind, name, value in (
        ("routes", "capability:refund", b"{}"),
        ("meta", "max_fanout", b"3"),
        ("rules", "r", rule),
    ):
        await drive.backend.set_meta(kind, name, value)  # type: ignore[arg-type]
    assert await drive.backend.written() == Written(
        4, {"capability:refund": b"{}"}, frozenset({"request"}), {"max_fanout": "3"}, {"r": rule}
    )
    for key in (KEYS.routes(), KEYS.types(), KEYS.rules()):
        await drive.place.spoil(key)
    assert await drive.backend.written() == Written(4, {}, frozenset(), {"max_fanout": "3"}, None)
    assert await drive.place.type_of(KEYS.routes()) == "none"
    assert await drive.place.type_of(KEYS.rules()) != "none", "healed by nobody who only reads"
    await drive.backend.set_meta("rules", "r", rule)
    assert (await drive.backend.written()).rules == {"r": rule}
