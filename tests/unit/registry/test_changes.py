"""Capabilities that change while an agent runs: anew, one more, one less; by an entry or by a beat; with several instances."""

from typing import Any

import msgspec
import pytest

from reach.backend.memory_backend import MemoryBackend
from reach.registry.registrar import Registrar
from tests.unit.registry.place import Place

WORK = [{"name": "work"}]


@pytest.fixture
def place() -> Place:
    return Place()


async def change(place: Place, capabilities: object, instance_id: str = "i1", **fields: Any) -> dict[str, Any]:
    asked = {"op": "capabilities", "agent_id": "a", "instance_id": instance_id, "capabilities": capabilities}
    return await place.ask(asked | fields)


async def names(place: Place) -> list[str]:
    return [one["name"] for one in (await stored(place)).get("capabilities", [])]


async def stored(place: Place) -> dict[str, Any]:
    data = await place.backend.registered("a")
    found: dict[str, Any] = msgspec.json.decode(data or b"{}")
    return found


@pytest.mark.parametrize(
    ("steps", "found"),
    [
        ({"add": [{"name": "more"}]}, ["work", "more"]),
        ({"add": [{"name": "work"}]}, ["work"]),
        ({"add": [{"name": "work", "input_schema": "work.v2"}]}, ["work", "work"]),
        ({"remove": ["work"]}, []),
        ({"remove": ["nothing", "work.v1"]}, ["work"]),
        ({"remove": [{"name": "work", "input_schema": "work.v1"}]}, ["work"]),
        ({"remove": [{"name": "work"}]}, []),
        ({"add": [{"name": "rest"}], "remove": ["work"]}, ["rest"]),
        ({}, ["work"]),
    ],
)
async def test_some_more_and_some_less(place: Place, steps: dict[str, Any], found: list[str]) -> None:
    await place.register(capabilities=WORK)
    assert (await change(place, steps))["notice"] == "done"
    assert await names(place) == found


async def test_what_is_added_again_is_declared_anew_however_it_is_written(place: Place) -> None:
    schema = {"type": "object", "title": "t"}
    await place.register(capabilities=[{"name": "work", "input_schema": schema}])
    await change(place, {"add": [{"input_schema": dict(reversed(schema.items())), "name": "work", "description": "d"}]})
    assert [one.get("description") for one in (await stored(place))["capabilities"]] == ["d"]
    await change(place, {"remove": [{"name": "work", "input_schema": schema}]})
    await change(place, {"add": [{"name": "work", "input_schema": "work.v1"}]})
    await change(place, {"add": [{"name": "work", "input_schema": "work.v1", "description": "new"}]})
    found = [one for one in (await stored(place))["capabilities"] if one["input_schema"] == "work.v1"]
    assert [one["description"] for one in found] == ["new"]


@pytest.mark.parametrize(
    "capabilities",
    [
        {"add": [{"name": "NO"}]},
        {"add": [{"name": "x", "colour": 1}]},
        {"add": [{}]},
        {"add": 5},
        {"drop": ["work"]},
        {"remove": [5]},
        {"add": [5]},
        [{"name": "x"}, {"name": "x"}],
        5,
        {"add": [{"name": f"c{number}"} for number in range(1_000)]},
    ],
)
async def test_a_change_that_is_none_is_refused_and_changes_nothing(place: Place, capabilities: object) -> None:
    await place.register(capabilities=WORK)
    answer = await change(place, capabilities)
    assert answer["notice"] == "refused"
    assert answer["code"].startswith("registration.")
    assert await names(place) == ["work"]


async def test_two_changes_at_once_are_both_there(place: Place) -> None:
    await place.register(capabilities=WORK)
    other = place.another()
    done = False

    async def interfere(agent_id: str) -> None:
        nonlocal done
        if not done:
            done = True
            known = await other.registered(agent_id)
            form = b'{"agent_id":"a","instance_id":"i1","capabilities":[{"name":"work"},{"name":"theirs"}]}'
            assert (await other.register(agent_id, form, "", b"", known)).ok

    class Raced(MemoryBackend):
        async def registered(self, agent_id: str) -> bytes | None:
            found = await super().registered(agent_id)
            await interfere(agent_id)
            return found

    place.registrar = Registrar(Raced(env="dev", store=place.store), "w1")
    assert (await change(place, {"add": [{"name": "mine"}]}))["notice"] == "done"
    assert sorted(await names(place)) == ["mine", "theirs", "work"]
    await other.close()


async def test_less_needs_nobodys_consent_and_more_needs_that_of_all_who_live(place: Place) -> None:
    await place.register(capabilities=WORK)
    await place.register("a", "i2", capabilities=WORK)
    answer = await change(place, {"add": [{"name": "more"}]})
    assert (answer["code"], answer["instances"], answer["differ"]) == (
        "registration.conflict",
        ["i2"],
        ["capabilities"],
    )
    answer = await change(place, {"add": [{"name": "more"}]}, declares="v2")
    assert (answer["notice"], answer["waits_for"], answer["declares"]) == ("done", ["i2"], "v2")
    assert await names(place) == ["work"], "the other one cannot do it, and they share an inbox"
    await place.backend.beat("a", "i1", b'{"declares":"v2"}')
    answer = await change(place, {"add": [{"name": "more"}]}, "i2", declares="v2")
    assert (answer["notice"], answer.get("waits_for")) == ("done", None)
    assert await names(place) == ["work", "more"]
    assert (await change(place, {"remove": ["work"]}))["notice"] == "done"
    assert await names(place) == ["more"]


@pytest.mark.parametrize("how", ["drains", "leaves", "is silent"])
async def test_who_goes_holds_nobody_to_the_old_declaration(place: Place, how: str) -> None:
    await place.register(capabilities=WORK)
    await place.register("a", "i2", capabilities=WORK)
    await place.register("a", "i3", capabilities=WORK)
    new = [{"name": "other"}]
    assert (await place.register("a", "n1", capabilities=new))["instances"] == ["i1", "i2", "i3"]
    for instance_id in ("i1", "i2", "i3"):
        assert (await place.register("a", "n1", capabilities=new))["code"] == "registration.conflict"
        if how == "drains":
            await place.backend.beat("a", instance_id, b'{"state":"draining"}')
        elif how == "leaves":
            await place.backend.leave("a", instance_id)
        else:
            place.clock.advance(15_000 if instance_id == "i3" else 0)
    assert (await place.register("a", "n1", capabilities=new))["notice"] == "registered"
    assert (await place.register("a", "n2", capabilities=new))["notice"] == "registered"
    assert await names(place) == ["other"]


async def test_who_can_do_more_joins_and_is_beaten_for_with_its_label(place: Place) -> None:
    await place.register(capabilities=WORK, weight=2)
    answer = await place.register("a", "n1", capabilities=[*WORK, {"name": "more"}], declares="v2")
    assert (answer["notice"], answer["waits_for"]) == ("registered", ["i1"])
    found = await stored(place)
    assert (found["capabilities"], found["weight"], "declares" in found) == (WORK, 2, False)
    _, beats = await place.backend.last_beats(0)
    assert {last.instance_id: last.beat for last in beats}["n1"] == b'{"declares":"v2"}'
    version = (await place.backend.snapshot()).version
    assert (await place.register("a", "n1", capabilities=[*WORK, {"name": "more"}], declares="v2"))["waits_for"]
    assert (await place.backend.snapshot()).version == version, "who asks again tells nobody anything"
    await place.backend.leave("a", "i1")
    answer = await place.register("a", "n1", capabilities=[*WORK, {"name": "more"}], declares="v2")
    assert "waits_for" not in answer
    assert await names(place) == ["work", "more"]


async def test_what_a_later_version_has_said_stays_when_somebody_joins(place: Place) -> None:
    form = b'{"agent_id":"a","instance_id":"i1","capabilities":[{"name":"work"}],"novelty":{"x":1}}'
    await place.backend.register("a", form, "i1", b"{}", None)
    accepts = [{"type": "request"}, {"type": "event"}]
    answer = await place.register("a", "n1", capabilities=[*WORK, {"name": "more"}], accepts=accepts, declares="v2")
    assert (answer["waits_for"], (await stored(place))["novelty"]) == (["i1"], {"x": 1})


async def test_a_beat_may_ask_for_it(place: Place) -> None:
    await place.register(capabilities=WORK)
    await place.backend.keep_mailbox("tester.0123456789abcdef01234567", [0])
    beat = b'{"state":"ready","novelty":1,"reply_to":"tester.0123456789abcdef01234567","capabilities":{"add":[{"name":"more"}]}}'
    await place.backend.beat("a", "i1", beat)
    assert await place.registrar.run_once() == {"done": 1}
    (answer,) = await place.answers()
    assert (answer["op"], answer["instance_id"]) == ("capabilities", "i1")
    assert await names(place) == ["work", "more"]


async def test_a_beat_cannot_speak_for_another_agent(place: Place) -> None:
    """A name that stands twice makes the entry junk; the one that the step has written cannot be replaced."""
    await place.register(capabilities=WORK)
    await place.backend.beat("a", "i1", b'{"agent_id":"b","capabilities":[]}')
    assert await place.registrar.run_once() == {"refused": 1}
    assert await names(place) == ["work"]
