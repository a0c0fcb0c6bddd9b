"""Policies of patterns: what can be set, what is refused and why, and where a message would go."""

import threading
from random import Random
from typing import Any

import pytest

from reach.backend.port import Backend
from reach.backend.steps import Meeting
from reach.envelope.message import Envelope, Payload, Scope, Source, Target, Traces
from reach.envelope.records import encode_registration
from reach.envelope.registration import Capability, Registration, RoutePolicy
from reach.envelope.rules import partition_of, stamp_of
from reach.errors import ConfigError, EnvelopeError
from reach.ids import new_msg_id
from reach.registry import routes as routes_module
from reach.registry.routes import Routes
from reach.routing.explain import explain
from reach.routing.policies import read_policy
from reach.testing import FaultyBackend
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


@pytest.mark.parametrize(
    ("pattern", "policy", "said"),
    [
        ("capability:refund", b'{"strategy": "scor"}', "strategy: 'scor' is none; there is: broadcast_all"),
        ("capability:refund", b'{"max_inboxes": 3}', "max_inboxes: no such field"),
        ("capability:refund", b'{"fallback": "refund"}', "fallback: "),
        ("capability:refund", b'{"fallback": "capability:a"}', "goes round"),
        ("refund", b"{}", "pattern: "),
        ("capability:refund", b"\xff", "no JSON object"),
    ],
)
async def test_what_was_written_by_hand_and_could_not_be_set_is_listed_with_its_problem(
    place: Place, pattern: str, policy: bytes, said: str
) -> None:
    await place.backend.set_meta("routes", "capability:a", b'{"fallback": "capability:refund"}')
    await place.backend.set_meta("routes", pattern, policy)
    found = {route.pattern: route for route in await Routes(place.backend).list()}
    assert said in found[pattern].problem


async def test_many_draws_hold_up_no_loop(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    asked_in: list[threading.Thread] = []

    def noted(*arguments: Any, **options: Any) -> Any:
        asked_in.append(threading.current_thread())
        return explain(*arguments, **options)

    monkeypatch.setattr(routes_module, "explain", noted)
    routes = await described(place)
    found = await routes.explain(sent("capability:refund"), draws=100)
    assert found.draws == 100
    assert threading.current_thread() not in asked_in


async def test_a_fallback_that_leads_back_is_refused_with_its_way(place: Place) -> None:
    routes = Routes(place.backend)
    await routes.set("capability:a", b'{"fallback": "capability:b"}')
    await routes.set("capability:b", b'{"fallback": "capability:c"}')
    for pattern, fallback in (
        ("capability:c", "capability:a"),
        ("capability:b", "capability:a"),
        ("group:g", "group:g"),
    ):
        with pytest.raises(ConfigError, match=f"goes round: {pattern} -> .*{pattern}$") as caught:
            await routes.set(pattern, b'{"fallback": "%s"}' % fallback.encode())
        assert fields(caught.value) == ["fallback"]
    await routes.set("capability:c", b'{"fallback": "capability:d"}')


class Others(FaultyBackend):
    """Somebody else sets policies just before ours is written."""

    def __init__(self, inner: Backend, policies: dict[str, bytes | None]) -> None:
        super().__init__(inner)
        self.policies = policies

    def __getattr__(self, name: str) -> Any:
        step = super().__getattr__(name)
        if name != "swap_meta":
            return step

        async def late(*args: Any) -> Any:
            while self.policies:
                await self._inner.set_meta("routes", *self.policies.popitem())
            return await step(*args)

        return late


async def test_two_who_set_fallbacks_at_once_make_no_circle(place: Place) -> None:
    await place.backend.set_meta("routes", "capability:a", GOOD)
    others = Others(place.backend, {"capability:b": b'{"fallback": "capability:a"}'})
    with pytest.raises(ConfigError, match="goes round: capability:a -> capability:b -> capability:a"):
        await Routes(others.backend).set("capability:a", b'{"fallback": "capability:b"}')
    stored = (await place.backend.snapshot()).routes
    assert stored == {"capability:a": GOOD, "capability:b": b'{"fallback": "capability:a"}'}, "the first one holds"


async def test_who_sets_a_policy_second_has_the_last_word(place: Place) -> None:
    others = Others(place.backend, {"capability:a": b"{}"})
    await Routes(others.backend).set("capability:a", GOOD)
    assert (await place.backend.snapshot()).routes == {"capability:a": GOOD}


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
        (b'{"strategy": "tiered", "tiers": ["small", "large"], "weights": {"tiny": 9}}', "weights.tiny"),
        (b'{"max_inbox": -1}', "max_inbox"),
    ],
)
def test_each_kind_of_mistake_names_its_field(data: bytes, field: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read_policy("capability:refund", data)
    assert fields(caught.value) == [field]


def test_null_is_absent_and_what_is_read_is_what_routers_read() -> None:
    assert read_policy("group:a", b'{"strategy": null, "tiers": null}') == RoutePolicy()


def sent(
    pattern: str, scope: Scope = "one", *, source: str = "ann", hops: tuple[str, ...] = (), **fields: Any
) -> Envelope:
    """A message as it would be sent."""
    return Envelope(
        msg_id=new_msg_id(),
        type=fields.pop("type", "request"),
        timestamp=0,
        source=Source(agent_id=source, zone=fields.pop("zone", None)),
        target=Target(pattern=pattern, scope=scope),
        traces=Traces(previous_hops=hops),
        **fields,
    )


async def test_it_is_explained_where_a_message_goes_and_why_not_elsewhere(place: Place) -> None:
    found = await (await described(place)).explain(sent("capability:refund", zone="a"))
    assert (found.pattern, found.strategy, found.has_policy, found.code) == ("capability:refund", "score", False, "")
    assert found.chosen[0] in {"a", "b"}
    seen = {one.agent: one for one in found.candidates}
    assert (seen["c"].filter, seen["c"].reason, seen["c"].score) == ("ready", "draining", None)
    assert seen["a"].score == pytest.approx(0.25)
    assert seen["b"].score == pytest.approx(0.5)
    assert [one.agent for one in found.candidates if one.chosen] == [*found.chosen]
    assert found.counts == {"matched": 3, "fit": 2, "ready": 1}
    assert await place.backend.read_work("w", [0], 10, 0) == [], "nothing is sent"


async def test_shares_are_those_of_many_draws_that_burden_nobody(place: Place) -> None:
    routes = await described(place)
    found = await routes.explain(sent("capability:refund"), draws=3_000)
    shares = {one.agent: one.share for one in found.candidates}
    assert shares["a"] == pytest.approx(1 / 3, abs=0.05)
    assert shares["a"] + shares["b"] == 1
    assert shares["c"] == 0
    await routes.set("capability:refund", b'{"strategy": "round_robin"}')
    even = await routes.explain(sent("capability:refund"), draws=10)
    assert [one.share for one in even.candidates] == [0.5, 0.5, 0]


async def test_the_policy_is_followed_and_told(place: Place) -> None:
    routes = await described(place)
    await routes.set("capability:refund", b'{"strategy": "direct", "fallback": "agent_id:c"}')
    found = await routes.explain(sent("capability:refund"))
    assert (found.chosen, found.has_policy, found.policy.fallback) == (("a",), True, "agent_id:c")
    assert (await routes.explain(sent("capability:refund", hops=("a",)))).chosen == ("b",)
    everybody = await routes.explain(sent("capability:refund", "all"))
    assert (everybody.chosen, everybody.delayed) == (("a", "b"), ("c",))


async def test_an_intent_says_what_it_means(place: Place) -> None:
    routes = await described(place)
    found = await routes.explain(sent("intent:my money back"))
    assert found.means[0].capability == "refund"
    assert found.chosen[0] in {"a", "b"}
    nothing = await routes.explain(sent("intent:sing a song"))
    assert (nothing.means, nothing.chosen, nothing.code) == ((), (), "")
    assert nothing.wait_ms > 0


@pytest.mark.parametrize(
    ("envelope", "code", "refused_by"),
    [
        (sent("agent_id:a", hops=("a",)), "loop.detected", "loop"),
        (sent("agent_id:a", type="own"), "type.unregistered", None),
        (sent("agent_id:a", source="intern"), "auth.denied", "rules"),
        (sent("capability:refund", "all", source="intern"), "auth.denied", "rules"),
    ],
)
async def test_what_nobody_may_have_says_how_it_would_end(
    place: Place, envelope: Envelope, code: str, refused_by: str | None
) -> None:
    routes = await described(place)
    await place.backend.set_meta("rules", "r", b'{"source": "intern", "target": "*", "effect": "deny"}')
    found = await routes.explain(envelope)
    assert (found.code, found.chosen) == (code, ())
    assert found.message
    assert {one.filter for one in found.candidates} == ({refused_by} if refused_by is not None else set())


async def test_bare_names_mean_what_they_mean_to_senders(place: Place) -> None:
    routes = await described(place)
    for name, pattern in (("a", "agent_id:a"), ("refund", "capability:refund"), ("Refund_X", "agent_id:Refund_X")):
        assert (await routes.explain(sent(name))).pattern == pattern


async def test_stages_are_explained_with_their_bare_names(place: Place) -> None:
    routes = await described(place)
    found = await routes.explain(sent("refund", "all", process_order=(("b",), ("a",))))
    assert (found.chosen, found.delayed, found.observers) == (("b",), ("a",), ("c",))


async def test_fresh_eyes_are_explained_with_whom_the_sender_has_met(place: Place) -> None:
    routes = await described(place)
    await routes.set("capability:refund", b'{"strategy": "fresh_eyes"}')
    await place.backend.meet([Meeting("ann", stamp_of("talk"), "b")])
    found = await routes.explain(sent("refund", correlation_id="talk"), draws=20)
    assert {one.agent: (one.share, one.reason) for one in found.candidates} == {
        "a": (1.0, ""),
        "b": (0.0, "has met this conversation"),
        "c": (0.0, "draining"),
    }
    other = await routes.explain(sent("refund", source="bob", correlation_id="talk"), draws=200)
    assert all(one.share > 0 for one in other.candidates if not one.filter)


async def test_what_a_sender_would_be_told_at_once_is_told_here(place: Place) -> None:
    routes = await described(place)
    with pytest.raises(EnvelopeError, match=r"payload\.schema"):
        await routes.explain(sent("refund", payload=Payload(schema="no schema")))
    for partition, draws in ((1, 1), (-1, 1), (0, 0)):
        with pytest.raises(ValueError, match=r"partition|draws"):
            await routes.explain(sent("refund"), partition=partition, draws=draws)


async def test_it_is_looked_at_in_the_partition_of_the_message() -> None:
    place = Place(partitions=4)
    routes = await described(place)  # agents that read one
    assert (await routes.explain(sent("refund"))).chosen != ()
    found = await routes.explain(sent("refund"), partition=3)
    assert {one.filter for one in found.candidates} == {"partition"}
    assert (await routes.explain(sent("refund", order_key="account 7"))).partition == partition_of("", "account 7", 4)


async def test_a_policy_may_be_a_mapping_and_what_has_no_json_is_told(place: Place) -> None:
    routes = Routes(place.backend)
    assert (await routes.set("capability:a", {"weights": {"a": 2}})).weights == {"a": 2.0}
    junk: list[Any] = [{"weights": {"a": object()}}, "{}", {"x": {1, 2}, 3: 4}]
    for each in junk:
        with pytest.raises(ConfigError):
            await routes.set("capability:a", each)
