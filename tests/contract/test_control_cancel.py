"""Cancel without the SDK: a control entry, answered by a notice. Without the order_key the message is looked for in every partition."""

import json
from typing import Any

import pytest

from reach.backend.port import Backend
from reach.backend.steps import Send
from reach.envelope.ledger import LegState
from reach.envelope.rules import partition_of
from reach.registry.registrar import Registrar
from tests.contract.drive import AGENT, ENVELOPE, TO_AGENT, Drive, head_of, new_id
from tests.contract.places import KEYS, Place

BOX = "foreign.0123456789abcdef"
PARTITIONS = 3
SOURCE = {"agent_id": "sender-1.3", "name": "sender-1", "node_id": "n1"}


class Foreigner:
    """A sender that has nothing but Redis commands, and a registrar."""

    def __init__(self, place: Place, backend: Backend) -> None:
        self.place, self.backend = place, backend
        self._registrar = Registrar(backend, "w1")
        self._read = "0"

    @classmethod
    async def start(cls, place: Place) -> "Foreigner":
        await (await place.connect()).set_meta("meta", "partitions", str(PARTITIONS).encode())
        backend = await place.connect()
        await backend.keep_mailbox(BOX, [0])
        for partition in range(PARTITIONS):
            await backend.open_inbox(partition, AGENT)
        return cls(place, backend)

    async def sent(self, partition: int, msg_id: str, sender: str = "sender-1", round: int = 1) -> None:
        """A message that lies in the inbox of a1."""
        await self.backend.submit(partition, "normal", ENVELOPE)
        (entry,) = await self.backend.read_work("w1", [partition], 1, 0)
        head = head_of(msg_id, sender=sender, round=round)
        (result,) = await self.backend.route(partition, [Send(entry, msg_id, head, (TO_AGENT,), ENVELOPE)])
        assert result.verdict == "done", result

    async def state(self, partition: int, msg_id: str) -> str:
        record = await self.backend.inspect(partition, msg_id)
        if record is None:
            return "nothing"
        return "tombstone" if record.head.tombstones else record.legs[0].state

    async def states(self, msg_id: str) -> list[str]:
        return [await self.state(partition, msg_id) for partition in range(PARTITIONS)]

    async def cancel(self, msg_id: str, **fields: Any) -> dict[str, Any]:
        entry = {"op": "cancel", "msg_id": msg_id, "source": SOURCE, "reply_to": BOX} | fields
        await self.place.append(KEYS.control(), {"c": json.dumps(entry).encode()})
        await self._registrar.run_once()
        (mail,) = [one for one in await self.backend.read_mail(BOX, {0: self._read}, 0) if one.kind == "notice"]
        self._read = mail.id
        told: dict[str, Any] = json.loads(mail.data)
        assert (told["op"], told["msg_id"]) == ("cancel", msg_id)
        return told


@pytest.fixture
async def foreigner(place: Place) -> Foreigner:
    return await Foreigner.start(place)


def elsewhere(msg_id: str) -> int:
    """A partition that is not the one of the bare id."""
    return (partition_of(msg_id, None, PARTITIONS) + 1) % PARTITIONS


def key_for(partition: int) -> str:
    """An order_key whose messages lie there."""
    return next(f"k{n}" for n in range(100) if partition_of("", f"k{n}", PARTITIONS) == partition)


async def test_the_message_is_found_wherever_its_order_key_has_put_it(foreigner: Foreigner) -> None:
    msg_id = new_id()
    where = elsewhere(msg_id)
    await foreigner.sent(where, msg_id)
    told = await foreigner.cancel(msg_id)
    assert (told["notice"], told["what"], told["closed"]) == ("done", "cancelled", 1)
    assert await foreigner.state(where, msg_id) == LegState.CANCELLED
    told = await foreigner.cancel(msg_id)
    assert (told["notice"], told["what"], told["closed"]) == ("done", "ended", 0)


async def test_with_the_order_key_no_other_partition_is_touched(foreigner: Foreigner) -> None:
    msg_id = new_id()
    where = elsewhere(msg_id)
    await foreigner.sent(where, msg_id)
    assert (await foreigner.cancel(msg_id, order_key=key_for(where)))["what"] == "cancelled"
    assert sorted(await foreigner.states(msg_id)) == ["cancelled", "nothing", "nothing"]


async def test_one_that_has_not_come_meets_a_tombstone_in_every_partition(foreigner: Foreigner) -> None:
    msg_id = new_id()
    told = await foreigner.cancel(msg_id, order_key=None)
    assert (told["notice"], told["what"]) == ("done", "tombstone")
    assert await foreigner.states(msg_id) == ["tombstone"] * PARTITIONS
    await foreigner.sent(elsewhere(msg_id), msg_id)
    record = await foreigner.backend.inspect(elsewhere(msg_id), msg_id)
    assert record is not None
    assert (record.legs[0].code, record.legs[0].hand) == ("cancelled", "0")


async def test_the_same_id_of_a_stranger_hides_nothing(foreigner: Foreigner) -> None:
    msg_id = new_id()
    await foreigner.sent(partition_of(msg_id, None, PARTITIONS), msg_id, "stranger")
    await foreigner.sent(elsewhere(msg_id), msg_id)
    told = await foreigner.cancel(msg_id)
    assert (told["notice"], told["what"], told["closed"]) == ("done", "cancelled", 1)
    assert await foreigner.state(elsewhere(msg_id), msg_id) == LegState.CANCELLED
    assert await foreigner.state(partition_of(msg_id, None, PARTITIONS), msg_id) == LegState.QUEUED


@pytest.mark.parametrize("source", [SOURCE | {"name": "thief"}, {"agent_id": "thief"}, "thief"], ids=repr)
async def test_a_stranger_is_refused(foreigner: Foreigner, source: object) -> None:
    msg_id = new_id()
    where = partition_of(msg_id, None, PARTITIONS)
    await foreigner.sent(where, msg_id)
    told = await foreigner.cancel(msg_id, source=source)
    assert (told["notice"], told["what"], told["code"]) == ("refused", "denied", "auth.denied")
    assert await foreigner.state(where, msg_id) == LegState.QUEUED


@pytest.mark.parametrize("source", [{"agent_id": "sender-1"}, "sender-1"], ids=repr)
async def test_the_sender_is_the_name_else_the_agent(foreigner: Foreigner, source: object) -> None:
    msg_id = new_id()
    await foreigner.sent(0, msg_id)
    assert (await foreigner.cancel(msg_id, source=source))["what"] == "cancelled"


async def test_it_carries_its_round(foreigner: Foreigner) -> None:
    msg_id = new_id()
    await foreigner.sent(0, msg_id, round=2)
    told = await foreigner.cancel(msg_id, round=1)
    assert (told["notice"], told["what"], told["closed"]) == ("done", "newer", 0)
    assert (await foreigner.cancel(msg_id, round=2))["what"] == "cancelled"


async def test_the_holder_hears_of_it(drive: Drive) -> None:
    taken = await drive.running()
    await drive.backend.hear(AGENT, 0)
    await drive.place.append(
        KEYS.control(),
        {"c": json.dumps({"op": "cancel", "msg_id": taken.msg_id, "source": "sender-1"}).encode()},
    )
    await Registrar(drive.backend, "w1").run_once()
    assert [hint.hand for hint in await drive.backend.hear(AGENT, 5_000)] == [taken.hand]
