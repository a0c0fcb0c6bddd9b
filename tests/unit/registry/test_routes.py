"""Policies of patterns: what can be set, what is refused and why, and where a message would go."""

from random import Random

import pytest

from reach.envelope.records import encode_registration
from reach.envelope.registration import Capability, Registration, RoutePolicy
from reach.errors import ConfigError
from reach.registry.routes import Routes, Trial
from reach.routing.policies import read_policy
from reach.routing.steps import Deliver, Finish
from tests.unit.registry.place import Place

GOOD = b'{"strategy": "tiered", "tiers": ["small", 2], "weights": {"small": 3, "2": 1}, "zone": "preferred", "on_full": "wait"}'


@pytest.fixture
def place() -> Place:
    return Place()


async def described(place: Place) -> Routes:
    for agent_id, beat in (("a", b'{"load":50}'), ("b", b"{}"), ("c", b'{"state":"draining"}')):
        offers = (Capability(name="refund", description="gives money back"),)
        declared = Registration(agent_id=agent_id, instance_id="i", capabilities=offers, zone=agent_id)
        assert (await place.backend.register(agent_id, encode_registration(declared), f"{agent_id}.1", beat, None)).ok
    return Routes(place.backend, Random(1))


def fields(error: ConfigError) -> list[str]:
    return [problem["field"] for problem in error.details["problems"]]


async def test_a_policy_is_set_listed_and_removed(place: Place) -> None:
    routes = Routes(place.backend)
    assert await routes.list() == []
    assert (await routes.set("capability:refund", GOOD)).tiers == ("small", 2)
    await routes.set("group:a", b"{}")
    assert [route.pattern for route in await routes.list()] == ["capability:refund", "group:a"]
    assert await routes.remove("capability:refund")
    assert not await routes.remove("capability:refund")
    assert [(route.pattern, route.policy, route.problem) for route in await routes.list()] == [("group:a", b"{}", "")]


async def test_what_nobody_can_read_is_listed_with_its_problem(place: Place) -> None:
    await place.backend.set_meta("routes", "capability:refund", b'{"strategy": 7}')
    (route,) = await Routes(place.backend).list()
    assert route.pattern == "capability:refund"
    assert "strategy" in route.problem


async def test_a_bad_policy_changes_nothing_and_says_all_that_is_wrong(place: Place) -> None:
    routes = Routes(place.backend)
    await routes.set("capability:refund", GOOD)
    bad = b'{"strategy": "best", "zone": "near", "weights": {"a": -1}, "speed": 1, "timeouts": {"total_ms": 0}, "fallback": "x"}'
    with pytest.raises(ConfigError) as caught:
        await routes.set("capability:", bad)
    assert fields(caught.value) == ["pattern", "speed", "zone", "weights", "strategy", "fallback", "timeouts.total_ms"]
    assert "best" in str(caught.value)
    assert "round_robin" in str(caught.value), "what there is, is told"
    assert [route.policy for route in await routes.list()] == [GOOD]


@pytest.mark.parametrize(
    ("data", "field"),
    [
        (b"", ""),
        (b"[]", ""),
        (b"{", ""),
        (b"\xff", ""),
        (b'{"strategy": "score", "strategy": "direct"}', ""),
        (b'{"canary": {"schema": "Weather", "share": 0.1}}', "canary.schema"),
        (b'{"canary": {"schema": "weather.v2", "share": 2}}', "canary"),
        (b'{"weights": {"a": 1e9}}', "weights"),
        (b'{"timeouts": {"total_ms": 604800001}}', "timeouts.total_ms"),
        (b'{"tiers": ["a", "a"]}', "tiers"),
        (b'{"strategy": "tiered", "tiers": ["a"], "weights": {"a": 0}}', "weights"),
        (b'{"max_inbox": -1}', "max_inbox"),
    ],
)
def test_each_kind_of_mistake_names_its_field(data: bytes, field: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read_policy("capability:refund", data)
    assert fields(caught.value) == [field]


def test_null_is_absent_and_what_is_read_is_what_routers_read() -> None:
    assert read_policy("group:a", b'{"strategy": null, "tiers": null}') == RoutePolicy()


def agents(trial: Trial) -> list[str]:
    return [step.agent for step in trial.choice.steps if isinstance(step, Deliver)]


async def test_a_trial_says_where_it_would_go_and_why_not_elsewhere(place: Place) -> None:
    routes = await described(place)
    trial = await routes.test("capability:refund", zone="a")
    assert trial.strategy == "score"
    assert agents(trial)[0] in {"a", "b"}
    seen = {one.agent: (one.filter, one.score) for one in trial.choice.why.candidates}
    assert seen["c"] == ("ready", None)
    assert seen["a"][1] == pytest.approx(0.25)
    assert seen["b"][1] == pytest.approx(0.5)
    assert await place.backend.read_work("w", [0], 10, 0) == [], "nothing is sent"


async def test_a_trial_follows_the_policy(place: Place) -> None:
    routes = await described(place)
    await routes.set("capability:refund", b'{"strategy": "direct"}')
    assert agents(await routes.test("capability:refund")) == ["a"]
    assert agents(await routes.test("capability:refund", hops=frozenset({"a"}))) == ["b"]
    assert sorted(agents(await routes.test("capability:refund", scope="all"))) == ["a", "b"]


async def test_a_trial_of_an_intent_says_what_it_means(place: Place) -> None:
    routes = await described(place)
    trial = await routes.test("intent:my money back")
    assert trial.ranked[0].capability == "refund"
    assert agents(trial)[0] in {"a", "b"}
    nothing = await routes.test("intent:sing a song")
    assert nothing.ranked == ()
    assert agents(nothing) == []


async def test_a_trial_of_what_nobody_may_have_says_how_it_would_end(place: Place) -> None:
    routes = await described(place)
    (step,) = (await routes.test("agent_id:a", hops=frozenset({"a"}))).choice.steps
    assert isinstance(step, Finish)
    assert step.code == "loop.detected"
