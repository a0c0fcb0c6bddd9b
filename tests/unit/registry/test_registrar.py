"""The registrar: it judges, opens the inboxes, tells everybody, and answers everything."""

from typing import Any

import msgspec
import pytest

from reach.backend.memory_backend import MemoryBackend
from reach.backend.steps import Plan, Send
from reach.envelope import records
from reach.envelope.registration import ControlEntry
from reach.errors import BackendError, BackendUnavailable
from reach.registry.declaring import MAX_TRIES
from reach.registry.registrar import Registrar
from reach.testing import FaultyBackend
from tests.contract.drive import ENVELOPE, head_of
from tests.unit.registry.place import MAILBOX, Place

WORK = [{"name": "work"}]
UUID = "a3f2c1e4-9b8d-4f3a-8c2e-1a2b3c4d5e6f"


@pytest.fixture
def place() -> Place:
    return Place()


async def stored(place: Place, agent_id: str = "a") -> dict[str, Any]:
    data, _ = await place.backend.registration(agent_id)
    assert data is not None
    found: dict[str, Any] = msgspec.json.decode(data)
    return found


async def test_an_agent_registers(place: Place) -> None:
    answer = await place.register(capabilities=WORK, accepts=[{"type": "request"}, {"type": "own.type"}])
    assert answer["notice"] == "registered"
    assert (answer["agent_id"], answer["instance_id"], answer["env"]) == ("a", "i1", "dev")
    assert (answer["partitions"], answer["version"], answer["beat_ms"]) == (1, 1, 5_000)
    assert (await stored(place))["capabilities"] == WORK
    snapshot = await place.backend.snapshot()
    assert snapshot.types == {"own.type"}
    _, beats = await place.backend.last_beats(0)
    assert [(last.agent_id, last.instance_id) for last in beats] == [("a", "i1")]


async def test_the_inboxes_of_all_partitions_are_open_before_anybody_learns_of_it() -> None:
    place = Place(partitions=3)
    seen: list[list[str]] = []
    place.registrar = Registrar(
        MemoryBackend(
            env="dev",
            store=place.store,
            before_step=lambda step: seen.append(place.lanes()) if step == "register" else None,
        ),
        "w1",
    )
    place.registrar._backend.partitions = 3
    assert (await place.register())["partitions"] == 3
    assert len(seen[0]) == 9


async def test_every_problem_is_told_at_once_and_nothing_is_written(place: Place) -> None:
    answer = await place.ask(
        {"op": "register", "agent_id": "a:b", "env": "prod", "weight": -1, "speed": 3, "capabilities": [{"name": "A"}]}
    )
    assert answer["notice"] == "refused"
    assert (answer["op"], answer["agent_id"]) == ("register", "a:b")
    told = {(problem["code"], problem["field"]) for problem in answer["problems"]}
    assert told == {
        ("registration.unknown_field", "speed"),
        ("registration.missing_field", "instance_id"),
        ("registration.bad_field", "agent_id"),
        ("registration.bad_field", "weight"),
        ("registration.bad_field", "capabilities[0].name"),
        ("registration.wrong_env", "env"),
    }
    assert answer["code"] == answer["problems"][0]["code"]
    assert (await place.backend.snapshot()).agents == {}
    assert place.lanes() == []


async def test_the_same_declaration_joins_as_one_more_instance(place: Place) -> None:
    await place.register(capabilities=[{"name": "x"}, {"name": "y"}], node_id="n1", token="t1")
    answer = await place.register("a", "i2", capabilities=[{"name": "y"}, {"name": "x"}], node_id="n2", token="t2")
    assert answer["notice"] == "registered"
    _, beats = await place.backend.registration("a")
    assert sorted(beats) == ["i1", "i2"]


async def test_a_token_is_not_left_where_everybody_reads(place: Place) -> None:
    await place.register(token="secret")
    assert "token" not in await stored(place)


async def test_another_declaration_of_a_live_agent_is_a_conflict(place: Place) -> None:
    await place.register(capabilities=WORK)
    answer = await place.register("a", "i2", capabilities=WORK, zone="z")
    assert (answer["notice"], answer["code"]) == ("refused", "registration.conflict")
    assert (answer["differ"], answer["instances"]) == (["zone"], ["i1"])
    assert "zone" not in await stored(place)


async def test_a_silent_agent_may_be_declared_anew(place: Place) -> None:
    await place.register(capabilities=WORK)
    place.clock.advance(14_999)
    assert (await place.register("a", "i2", zone="z"))["code"] == "registration.conflict"
    place.clock.advance(1)
    assert (await place.register("a", "i2", zone="z"))["notice"] == "registered"
    assert (await stored(place))["zone"] == "z"


async def test_the_only_instance_may_declare_itself_anew_and_keeps_what_it_said_of_itself(place: Place) -> None:
    await place.register(capabilities=WORK)
    await place.backend.beat("a", "i1", b'{"state":"draining"}')
    assert (await place.register(zone="z"))["notice"] == "registered"
    _, beats = await place.backend.last_beats(0)
    assert beats[0].beat == b'{"state":"draining"}'


async def test_bytes_that_no_registrar_wrote_are_overwritten(place: Place) -> None:
    await place.backend.register("a", b'{"junk":1}', "i9", b"{}", None)
    assert (await place.register(capabilities=WORK))["notice"] == "registered"
    assert (await stored(place))["capabilities"] == WORK


async def test_two_registrars_at_once_lose_nothing(place: Place) -> None:
    other = place.another()
    busy = 0

    def interfere(step: str) -> None:
        nonlocal busy
        if step == "register" and busy < 3:
            busy += 1
            hash_ = place.store.make_hash("reach:{dev}:agents")
            hash_["a"] = f'{{"agent_id":"a","instance_id":"i0","v":{busy}}}'.encode()

    place.registrar = Registrar(MemoryBackend(env="dev", store=place.store, before_step=interfere), "w1")
    assert (await place.register(capabilities=WORK))["notice"] == "registered"
    assert busy == 3
    assert (await stored(place))["capabilities"] == WORK
    await other.close()


async def test_a_registration_that_is_changed_again_and_again_is_sent_back(place: Place) -> None:
    count = 0

    def interfere(step: str) -> None:
        nonlocal count
        if step == "register":
            count += 1
            place.store.make_hash("reach:{dev}:agents")["a"] = b'{"agent_id":"a","instance_id":"i0","v":%d}' % count

    place.registrar = Registrar(MemoryBackend(env="dev", store=place.store, before_step=interfere), "w1")
    assert (await place.register())["code"] == "backend.unavailable"
    assert count == MAX_TRIES


async def test_capabilities_change(place: Place) -> None:
    await place.register(capabilities=WORK, zone="z")
    change = {"op": "capabilities", "agent_id": "a", "instance_id": "i1", "capabilities": [{"name": "rest"}]}
    answer = await place.ask(change)
    assert (answer["notice"], answer["op"]) == ("done", "capabilities")
    found = await stored(place)
    assert (found["capabilities"], found["zone"]) == ([{"name": "rest"}], "z")
    answer = await place.ask({**change, "accepts": [{"type": "own"}]})
    assert answer["notice"] == "done"
    assert (await stored(place))["accepts"] == [{"type": "own"}]


@pytest.mark.parametrize("agent_id", ["nobody", "not:a name"])
async def test_capabilities_of_nobody_are_refused(place: Place, agent_id: str) -> None:
    answer = await place.ask({"op": "capabilities", "agent_id": agent_id, "instance_id": "i", "capabilities": []})
    assert (answer["notice"], answer["code"]) == ("refused", "registration.unknown_agent")


async def test_capabilities_that_are_none_are_refused(place: Place) -> None:
    await place.register(capabilities=WORK)
    change = {"op": "capabilities", "agent_id": "a", "instance_id": "i1", "capabilities": [{"name": "NO"}]}
    assert (await place.ask(change))["code"] == "registration.bad_field"
    await place.register("a", "i2", capabilities=WORK)
    change["capabilities"] = [{"name": "yes"}]
    assert (await place.ask(change))["code"] == "registration.conflict"
    assert (await stored(place))["capabilities"] == WORK


async def test_the_last_instance_takes_the_agent_with_it(place: Place) -> None:
    await place.register()
    await place.register("a", "i2")
    answer = await place.ask({"op": "leave", "agent_id": "a", "instance_id": "i1"})
    assert (answer["notice"], answer["last"]) == ("done", False)
    assert len(place.lanes()) == 3
    answer = await place.ask({"op": "leave", "agent_id": "a", "instance_id": "i2"})
    assert answer["last"]
    assert place.lanes() == []
    assert await place.backend.registration("a") == (None, {})
    assert (await place.ask({"op": "leave", "agent_id": "a", "instance_id": "i2"}))["notice"] == "done", "twice"


async def test_a_farewell_without_names_is_refused(place: Place) -> None:
    assert (await place.ask({"op": "leave", "agent_id": "a b", "instance_id": "i"}))["code"] == "registration.bad_field"
    answer = await place.ask({"op": "leave", "agent_id": 5})
    assert (answer["notice"], answer["code"]) == ("refused", "registration.malformed")


class Racing(MemoryBackend):
    """Another registrar lets the second instance of an agent in, right after a step of this one."""

    def __init__(self, place: Place, after: str) -> None:
        super().__init__(env="dev", store=place.store)
        self._place = place
        self._after_step_named = after

    async def leave(self, agent_id: str, instance_id: str, before_ms: int | None = None) -> bool:
        last = await super().leave(agent_id, instance_id, before_ms)
        await self._race("leave")
        return last

    async def close_inbox(self, partition: int, agent_id: str) -> bool:
        closed = await super().close_inbox(partition, agent_id)
        await self._race("close_inbox")
        return closed

    async def _race(self, step: str) -> None:
        if step == self._after_step_named:
            self._after_step_named = ""
            other = self._place.another()
            stored = await other.registered("a")
            await other.open_inbox(0, "a")
            assert (await other.register("a", b'{"agent_id":"a","instance_id":"i2"}', "i2", b"{}", stored)).ok
            await other.close()


@pytest.mark.parametrize(("after", "last"), [("leave", False), ("close_inbox", True)])
async def test_an_instance_that_registers_while_the_last_one_leaves_keeps_its_inboxes(
    place: Place, after: str, last: bool
) -> None:
    await place.register()
    place.registrar = Registrar(Racing(place, after), "w1")
    answer = await place.ask({"op": "leave", "agent_id": "a", "instance_id": "i1"})
    assert (answer["notice"], answer["last"]) == ("done", last)
    stored, beats = await place.backend.registration("a")
    assert (stored is not None, list(beats)) == (True, ["i2"])
    assert len(place.lanes()) == 3


async def test_a_fleet_that_starts_looks_through_nobody_elses_beats(place: Place) -> None:
    backend = FaultyBackend(place.another())
    place.registrar = Registrar(backend.backend, "w1")
    for number in range(20):
        await place.register(f"a{number % 10}", f"i{number}", capabilities=WORK)
    assert not {"registration", "instances"} & set(backend.calls)
    assert backend.calls.count("registered") == 20
    answer = await place.register("a0", "i20")
    assert (answer["code"], backend.calls.count("instances")) == ("registration.conflict", 1)


@pytest.mark.parametrize("source", ["s", {"agent_id": "s-1", "name": "s"}])
async def test_a_cancel_leaves_a_tombstone_in_every_partition(source: object) -> None:
    place = Place(partitions=3)
    answer = await place.ask({"op": "cancel", "msg_id": UUID, "source": source})
    assert (answer["notice"], answer["what"], answer["closed"], answer["msg_id"]) == ("done", "tombstone", 0, UUID)
    assert len(place.keys(UUID)) == 3


async def test_a_cancel_with_its_order_key_knows_where() -> None:
    place = Place(partitions=3)
    await place.ask({"op": "cancel", "msg_id": UUID, "source": "s", "order_key": "k", "round": 2, "total_ms": 5})
    assert len(place.keys(UUID)) == 1


async def test_only_the_sender_may_cancel(place: Place) -> None:
    await place.backend.submit(0, "normal", ENVELOPE)
    (entry,) = await place.backend.read_work("w", [0], 1, 0)
    sent = Send(entry, UUID, head_of(UUID), (Plan("delay", wait_ms=1_000),), ENVELOPE)
    await place.backend.route(0, [sent])
    answer = await place.ask({"op": "cancel", "msg_id": UUID, "source": "thief"})
    assert (answer["notice"], answer["what"], answer["code"]) == ("refused", "denied", "auth.denied")
    answer = await place.ask({"op": "cancel", "msg_id": UUID, "source": sent.head.sender})
    assert (answer["notice"], answer["what"], answer["closed"]) == ("done", "cancelled", 1)


@pytest.mark.parametrize(
    "fields",
    [{}, {"msg_id": "no", "source": "s"}, {"msg_id": UUID}, {"msg_id": UUID, "source": "s", "colour": 1}]
    + [{"msg_id": UUID, "source": "s", "round": number} for number in (0, -1, 2**63, 10**30, True)]
    + [{"msg_id": UUID, "source": "s", "total_ms": number} for number in (0, -1, 2**63, 10**30)],
)
async def test_a_cancel_that_names_no_message_is_refused(place: Place, fields: dict[str, Any]) -> None:
    answer = await place.ask({"op": "cancel", **fields})
    assert (answer["notice"], answer["code"]) == ("refused", "envelope.bad_field")


async def test_an_entry_that_brings_the_registrar_down_is_given_up_and_the_next_one_handled(
    place: Place, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    decode = records.decode_control

    def clumsy(data: bytes) -> ControlEntry:
        if b"bug" in data:
            raise ZeroDivisionError("a bug")
        return decode(data)

    monkeypatch.setattr(records, "decode_control", clumsy)
    await place.backend.keep_mailbox(MAILBOX, [0])
    for agent_id in ("bug", "a"):
        entry = {"op": "register", "reply_to": MAILBOX, "agent_id": agent_id, "instance_id": "i1"}
        await place.backend.send_control(msgspec.json.encode(entry))
    with pytest.raises(ZeroDivisionError):
        await place.registrar.run_once()
    assert await place.registrar.run_once() == {"given_up": 1, "registered": 1}
    assert [notice["agent_id"] for notice in await place.answers()] == ["a"]
    assert "given up" in caplog.text
    assert await place.backend.read_control("w1", 0, 0) == []


async def test_a_lost_server_leaves_the_entry_to_be_handled_again(place: Place) -> None:
    down = True

    def fail(step: str) -> None:
        if step == "register" and down:
            raise BackendUnavailable("down")

    place.registrar = Registrar(MemoryBackend(env="dev", store=place.store, before_step=fail), "w1")
    await place.backend.keep_mailbox(MAILBOX, [0])
    entry = {"op": "register", "reply_to": MAILBOX, "agent_id": "a", "instance_id": "i1"}
    await place.backend.send_control(msgspec.json.encode(entry))
    with pytest.raises(BackendUnavailable):
        await place.registrar.run_once()
    assert await place.answers() == []
    down = False
    assert await place.registrar.run_once() == {"registered": 1}
    assert [notice["notice"] for notice in await place.answers()] == ["registered"]


async def test_what_the_server_refuses_for_good_is_answered(place: Place) -> None:
    def fail(step: str) -> None:
        if step == "open_inbox":
            raise BackendError("WRONGTYPE", details={"reply": "WRONGTYPE"})

    place.registrar = Registrar(MemoryBackend(env="dev", store=place.store, before_step=fail), "w1")
    answer = await place.register()
    assert (answer["notice"], answer["code"], answer["reply"]) == ("refused", "backend.error", "WRONGTYPE")
