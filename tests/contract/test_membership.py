"""What a registrar judges by: how each instance of an agent is, who vouches for an entry, and what a beat asks for."""

import json

import pytest

from reach.errors import BackendError
from tests.contract.drive import Drive
from tests.contract.places import KEYS

CARD = b'{"agent_id":"a1"}'
READY = b'{"state":"ready","declares":"l"}'


async def registered(drive: Drive, agent: str = "a1") -> None:
    assert (await drive.backend.register(agent, CARD, "i1", READY, None)).ok


async def test_the_instances_of_one_agent_with_their_last_beats(drive: Drive) -> None:
    assert await drive.backend.instances("a1") == []
    for agent in ("a1", "a", "a1.x"):
        await registered(drive, agent)
    await drive.backend.beat("a1", "i2", b'{"state":"draining"}')
    found = await drive.backend.instances("a1")
    assert sorted((last.agent_id, last.instance_id, last.beat) for last in found) == [
        ("a1", "i1", READY),
        ("a1", "i2", b'{"state":"draining"}'),
    ]
    _, all_beats = await drive.backend.last_beats(0)
    assert {last for last in all_beats if last.agent_id == "a1"} == set(found)


async def test_an_instance_whose_load_is_lost_is_still_one(drive: Drive) -> None:
    await registered(drive)
    await drive.place.delete(KEYS.load())
    assert [last.beat for last in await drive.backend.instances("a1")] == [b"{}"]
    await drive.place.spoil(KEYS.load())
    assert [last.beat for last in await drive.backend.instances("a1")] == [b"{}"]


async def test_who_adds_an_entry_vouches_for_it_alone(drive: Drive) -> None:
    entry = b'{"op":"leave","agent_id":"a1","instance_id":"i1"}'
    await drive.backend.send_control(entry)
    found = await drive.backend.peers([entry, b'{"op":"leave","agent_id":"a1","instance_id":"i2"}'])
    if drive.place.kind == "memory":
        assert found is None
    else:
        assert found == [["127.0.0.1"], []]


async def control(drive: Drive) -> list[bytes]:
    return [data for _, data in await drive.backend.read_control("w", 0)]


async def test_a_change_that_a_beat_asks_for_goes_on_as_an_entry_of_control(drive: Drive) -> None:
    await registered(drive)
    beat = b' {"state":"busy","capabilities" : {"add":[{"name":"x"}]},"reply_to":"box"} '
    assert (await drive.backend.beat("a1", "i1", beat)).known
    (entry,) = await control(drive)
    assert json.loads(entry) == {
        "op": "capabilities",
        "beat": 1,
        "agent_id": "a1",
        "instance_id": "i1",
        **json.loads(beat),
    }
    assert [last.beat for last in await drive.backend.instances("a1")] == [beat]


@pytest.mark.parametrize(
    ("agent", "beat"),
    [
        ("nobody", b'{"state":"draining","capabilities":[]}'),
        ("a1", b'{"state":"ready","reason":"my \\"capabilities\\": none"}'),
        ("a1", b'["capabilities":'),
        ("a1", b"{}"),
    ],
)
async def test_what_is_no_such_beat_asks_for_nothing(drive: Drive, agent: str, beat: bytes) -> None:
    await registered(drive)
    await drive.backend.beat(agent, "i1", beat)
    assert await control(drive) == []


async def test_no_name_can_break_out_of_the_entry(drive: Drive) -> None:
    await registered(drive)
    with pytest.raises(BackendError):
        await drive.backend.beat("a1", 'i","agent_id":"b', b'{"capabilities":[]}')
    assert await control(drive) == []


async def test_an_entry_of_a_beat_finds_the_door_open_whatever_lies_there(drive: Drive) -> None:
    await registered(drive)
    await drive.place.spoil(KEYS.control())
    await drive.backend.beat("a1", "i1", b'{"capabilities":[]}')
    assert len(await control(drive)) == 1
