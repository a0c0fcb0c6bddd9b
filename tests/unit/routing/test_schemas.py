"""Routing by schema: the message's own, another one that reads it, and the canary."""

from random import Random

import pytest

from reach.envelope.families import Family, Version, encode_family
from reach.envelope.ledger import LegState
from reach.envelope.registration import Accept, Canary
from reach.envelope.rules import BUILT_IN_TYPES
from reach.routing.decide import decide
from reach.routing.index import CapabilityIndex
from reach.routing.schemas import in_canary
from reach.routing.steps import Deliver, Finish
from tests.unit.routing.seen import NOW, add, chooser, finish, leg, message, silence, step

V1, V2, V3 = (f"weather.query.v{n}" for n in (1, 2, 3))
CANARY = b'{"canary":{"schema":"weather.query.v2","share":0.1}}'


def family(compatibility: str = "backward") -> bytes:
    versions = (
        Version(V1, "1", "admin", 0),
        Version(V2, "2", "admin", 0, (V1,), (V1,)),
        Version(V3, "3", "admin", 0, (V2,)),
    )
    return encode_family(Family(compatibility, versions))  # type: ignore[arg-type]


def index_of(**agents: tuple[str, ...]) -> CapabilityIndex:
    index = CapabilityIndex()
    for agent_id, schemas in agents.items():
        add(index, agent_id, "weather", accepts=(Accept(type="request", schemas=schemas),))
    return index


def asked(schema: str | None = V1, conversation: str = "c") -> object:
    return message("capability:weather", schema=schema, conversation=conversation)


def refused(index: CapabilityIndex, schema: str) -> str:
    choice = decide(asked(schema), leg(LegState.WAITING), chooser(index), NOW + 30_000 - 1)  # type: ignore[arg-type]
    return finish(choice).code


# ---------------------------------------------------------------- schemas that read older ones
def test_a_message_goes_to_who_reads_its_schema_and_explain_says_so() -> None:
    index = index_of(b=(V2,))
    assert refused(index, V1) == "route.no_candidate"
    index.apply("schema", "weather.query", family())
    choice = decide(asked(), None, chooser(index), NOW)  # type: ignore[arg-type]
    assert step(choice) == Deliver("b")
    assert choice.why.candidates[0].reason == f"accepts {V2}, which reads {V1}"


def test_nobody_reads_newer_ones_or_ones_that_nothing_was_promised_of() -> None:
    index = index_of(a=(V1,), c=(V3,))
    index.apply("schema", "weather.query", family())
    assert refused(index, V2) != ""
    assert step(decide(asked(V2), None, chooser(index), NOW)) == Deliver("c")  # type: ignore[arg-type]
    assert refused(index_of(c=(V3,)), V1) == "route.no_candidate"


@pytest.mark.parametrize(
    ("compatibility", "v1_at_v2", "v2_at_v1"),
    [("backward", True, False), ("forward", False, True), ("full", True, True), ("none", False, False)],
)
def test_the_rule_of_the_family_says_which_way(compatibility: str, v1_at_v2: bool, v2_at_v1: bool) -> None:
    for has, sent, goes in ((V2, V1, v1_at_v2), (V1, V2, v2_at_v1)):
        index = index_of(a=(has,))
        index.apply("schema", "weather.query", family(compatibility))
        assert isinstance(step(decide(asked(sent), None, chooser(index), NOW)), Deliver) is goes  # type: ignore[arg-type]


def test_the_messages_own_schema_is_preferred() -> None:
    index = index_of(a=(V2,), b=(V1,), c=())
    index.apply("schema", "weather.query", family())
    choices = [decide(asked(), None, chooser(index, seed), NOW) for seed in range(20)]  # type: ignore[arg-type]
    assert all(step(choice) in (Deliver("b"), Deliver("c")) for choice in choices)
    (choice, *_) = choices
    (seen,) = [seen for seen in choice.why.candidates if seen.agent == "a"]
    assert (seen.filter, seen.reason) == ("schema", f"accepts {V2}, which reads {V1}; others accept {V1} itself")
    silence(index, "b", "c")
    assert step(decide(asked(), None, chooser(index), NOW)) == Deliver("a")  # type: ignore[arg-type]


def test_a_retry_goes_to_a_fresh_one_that_reads_it_rather_than_to_the_same() -> None:
    index = index_of(a=(V1,), b=(V2,))
    index.apply("schema", "weather.query", family())
    returned = leg(LegState.RETURNED, tried=("a",), agent="a", hand="1-1", core="{}")
    assert step(decide(asked(), returned, chooser(index), NOW)) == Deliver("b")  # type: ignore[arg-type]


def test_a_family_that_goes_or_cannot_be_read_promises_nothing() -> None:
    index = CapabilityIndex()
    for data in (b"", b"junk", family("none")):
        index.load({}, {}, (), {}, families={"weather.query": family()})
        add(index, "b", "weather", accepts=(Accept(type="request", schemas=(V2,)),))
        assert step(decide(asked(), None, chooser(index), NOW)) == Deliver("b")  # type: ignore[arg-type]
        index.apply("schema", "weather.query", data)
        assert refused(index, V1) == "route.no_candidate"
    index.load({}, {}, (), {})
    assert index.schemas.readers(V1) == frozenset()


# ---------------------------------------------------------------- the canary
def test_the_share_is_exact_within_one_percent_over_10_000() -> None:
    rule, rng = Canary(schema=V2, share=0.1), Random(7)
    chosen = sum(in_canary(rule, message(conversation=f"{rng.getrandbits(64):x}")) for _ in range(10_000))
    assert 900 <= chosen <= 1_100
    one = [message(conversation=f"c-{n}") for n in range(10_000)]
    assert 900 <= sum(in_canary(rule, each) for each in one) <= 1_100
    assert [in_canary(Canary(schema=V2, share=share), one[0]) for share in (0.0, 1.0)] == [False, True]


def test_a_greater_share_moves_nobody_back() -> None:
    small, large = Canary(schema=V2, share=0.1), Canary(schema=V2, share=0.3)
    for n in range(1_000):
        each = message(conversation=f"c-{n}")
        assert in_canary(large, each) or not in_canary(small, each)


def test_the_share_of_a_pattern_goes_to_agents_with_the_schema_and_the_rest_to_the_others() -> None:
    index = index_of(a=(V1,), b=(V2,), c=(V1, V2))
    index.apply("schema", "weather.query", family())
    index.apply("route", "capability:weather", CANARY)
    by = chooser(index)
    got: dict[str, int] = {}
    for n in range(2_000):
        for schema in (V1, None):
            choice = decide(asked(schema, f"c-{n}"), None, by, NOW)  # type: ignore[arg-type]
            found = step(choice)
            assert isinstance(found, Deliver)
            got[found.agent] = got.get(found.agent, 0) + 1
            assert (found.agent != "a") == in_canary(index.policy("capability:weather").canary, asked(schema, f"c-{n}"))  # type: ignore[arg-type]
    assert got["a"] == pytest.approx(3_600, abs=60)


def test_among_many_the_canary_and_the_messages_own_schema_hold_as_well() -> None:
    """There one is drawn without asking all of them."""
    agents = {f"a{n}": (V1,) for n in range(30)} | {f"b{n}": (V2,) for n in range(30)}
    index = index_of(**agents)
    index.apply("schema", "weather.query", family())
    by = chooser(index)
    for n in range(200):
        found = step(decide(asked(V1, f"c-{n}"), None, by, NOW))  # type: ignore[arg-type]
        assert isinstance(found, Deliver)
        assert found.agent.startswith("a")
    index.apply("route", "capability:weather", CANARY)
    for n in range(500):
        found = step(decide(asked(V1, f"c-{n}"), None, by, NOW))  # type: ignore[arg-type]
        assert isinstance(found, Deliver)
        rule = index.policy("capability:weather").canary
        assert rule is not None
        assert found.agent.startswith("b") is in_canary(rule, message("capability:weather", conversation=f"c-{n}"))


def test_where_one_side_fits_nowhere_the_other_has_all_of_it_and_explain_says_which_it_was() -> None:
    index = index_of(a=(V1,), b=(V1, V2))
    index.apply("route", "capability:weather", CANARY)
    sides = {in_canary(index.policy("capability:weather").canary, asked(V1, f"c-{n}")): f"c-{n}" for n in range(100)}  # type: ignore[arg-type]
    inside = decide(asked(V1, sides[True]), None, chooser(index), NOW)  # type: ignore[arg-type]
    outside = decide(asked(V1, sides[False]), None, chooser(index), NOW)  # type: ignore[arg-type]
    assert (step(inside), step(outside)) == (Deliver("b"), Deliver("a"))
    told = {choice.why.candidates[1].agent: choice.why.candidates[1].reason for choice in (inside, outside)}
    assert told == {
        "a": f"the canary: this conversation goes to {V2}, as 0.1 of them do",
        "b": f"the canary: this conversation is not of the 0.1 that go to {V2}",
    }
    assert inside.why.counts["canary"] == 1
    silence(index, "b")
    assert step(decide(asked(V1, sides[True]), None, chooser(index), NOW)) == Deliver("a")  # type: ignore[arg-type]
    silence(index, "a")
    assert not isinstance(step(decide(asked(V1, sides[True]), None, chooser(index), NOW)), Finish)  # type: ignore[arg-type]


# ---------------------------------------------------------------- types
def test_a_type_is_known_while_it_is_written_down_or_somebody_accepts_it() -> None:
    index = CapabilityIndex()
    assert index.types.all() == BUILT_IN_TYPES
    add(index, "a", "x", accepts=(Accept(type="own.type"),))
    add(index, "b", "x", accepts=(Accept(type="own.type"),))
    index.apply("type", "own.type", b"")
    index.apply("gone", "a", b"")
    assert index.has_type("own.type")
    index.apply("gone", "b", b"")
    assert not index.has_type("own.type")
    index.apply("type", "own.type", b"1")
    add(index, "a", "x", accepts=(Accept(type="own.type"),))
    index.apply("gone", "a", b"")
    assert index.has_type("own.type")
    assert len(index.types) == len(BUILT_IN_TYPES) + 1
    index.apply("type", "request", b"")
    assert index.has_type("request")
    index.load({}, {}, ("more",), {})
    assert index.types.all() == BUILT_IN_TYPES | {"more"}
