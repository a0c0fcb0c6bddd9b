"""Who may call whom: what a rule is about, what outweighs what, and that nothing that cannot be read opens anything."""

import msgspec
import pytest

from reach.envelope.ledger import LegState
from reach.envelope.message import Scope
from reach.errors import ConfigError
from reach.routing.access import LOST
from reach.routing.call_rules import read_call_rule
from reach.routing.decide import decide
from reach.routing.index import CapabilityIndex
from reach.routing.pattern import parse
from reach.routing.steps import Delay, Deliver, Finish, Stay
from tests.unit.routing.seen import DRAINING, NOW, add, chooser, finish, leg, message, queued, silence, step, three


def rule(source: str, target: str, effect: str = "deny", **more: object) -> bytes:
    return msgspec.json.encode({"source": source, "target": target, "effect": effect, **more})


def offices() -> CapabilityIndex:
    """refund-1 pays back and tells the weather, clock-1 offers nothing; shop-1 and ann may send."""
    index = CapabilityIndex()
    add(index, "refund-1", "refund.pay", "weather", groups=("money",))
    add(index, "clock-1", groups=("house",))
    add(index, "shop-1", "sell", groups=("shops",))
    return index


def may(
    index: CapabilityIndex, source: str, pattern: str, agent: str, *, name: str = "", type: str = "request"
) -> bool:
    caller = index.caller(source, name)
    return caller is None or caller.refusal(index.agents[agent], parse(pattern), type) is None


def test_an_env_without_rules_lets_everybody_call_everybody() -> None:
    index = offices()
    assert index.caller("anybody", "") is None
    index.apply("rule", "a", rule("others", "*"))
    assert index.caller("anybody", "") is None, "rules about others cost it nothing"


@pytest.mark.parametrize(
    ("source", "is_about"),
    [
        ("*", True),
        ("shop-1", True),
        ("shop-*", True),
        ("agent_id:shop-*", True),
        ("*op-1", True),
        ("s*p*1", True),
        ("shop", True),  # the name of all replicas
        ("group:shops", True),
        ("group:sho*", True),
        ("group:money", False),
        ("shop-11", False),
        ("hop-1", False),
        ("SHOP-1", False),
        ("shop.1", False),
    ],
)
def test_whom_a_source_names(source: str, is_about: bool) -> None:
    index = offices()
    index.apply("rule", "r", rule(source, "*"))
    assert may(index, "shop-1", "capability:weather", "refund-1", name="shop") is not is_about


@pytest.mark.parametrize(
    ("target", "pattern", "agent", "is_about"),
    [
        ("*", "capability:weather", "refund-1", True),
        ("*", "agent_id:clock-1", "clock-1", True),
        ("agent_id:refund-*", "capability:weather", "refund-1", True),
        ("agent_id:refund-*", "agent_id:clock-1", "clock-1", False),
        ("group:money", "capability:weather", "refund-1", True),
        ("group:house", "capability:weather", "refund-1", False),
        ("capability:refund.*", "capability:refund.pay", "refund-1", True),
        ("capability:refund.*", "capability:refund.*", "refund-1", True),
        ("capability:refund.*", "capability:weather", "refund-1", False),
        ("capability:refund.*", "capability:weather+refund.pay", "refund-1", True),
        # By name, group or intent any of its handlers may get it: no way round a rule about one of them.
        ("capability:refund.*", "agent_id:refund-1", "refund-1", True),
        ("capability:refund.*", "group:money", "refund-1", True),
        ("capability:refund.*", "intent:how is the weather", "refund-1", True),
        ("capability:refund.*", "agent_id:clock-1", "clock-1", False),
    ],
)
def test_what_a_target_names(target: str, pattern: str, agent: str, is_about: bool) -> None:
    index = offices()
    index.apply("rule", "r", rule("*", target))
    assert may(index, "shop-1", pattern, agent) is not is_about


def test_a_rule_about_one_type_leaves_others_alone() -> None:
    index = offices()
    index.apply("rule", "r", rule("*", "*", type="event"))
    assert may(index, "shop-1", "capability:weather", "refund-1")
    assert not may(index, "shop-1", "capability:weather", "refund-1", type="event")


def test_one_that_denies_outweighs_all_that_allow() -> None:
    index = offices()
    for closed in (b"", b"1"):
        index.apply("meta", "closed", closed)
        index.apply("rule", "a-first", rule("shop-1", "capability:weather", "allow"))
        index.apply("rule", "deny", rule("group:shops", "group:money"))
        index.apply("rule", "z-last", rule("*", "*", "allow"))
        assert not may(index, "shop-1", "capability:weather", "refund-1")
        assert may(index, "ann", "capability:weather", "refund-1")
        index.apply("rule", "deny", b"")
        assert may(index, "shop-1", "capability:weather", "refund-1")


def test_a_closed_env_lets_through_only_what_a_rule_allows() -> None:
    index = offices()
    index.apply("meta", "closed", b"1")
    assert not may(index, "shop-1", "capability:weather", "refund-1")
    index.apply("rule", "weather", rule("shop-*", "capability:weather", "allow"))
    assert may(index, "shop-1", "capability:weather", "refund-1")
    assert not may(index, "ann", "capability:weather", "refund-1")
    assert not may(index, "shop-1", "capability:weather+refund.pay", "refund-1"), "each of them must be allowed"
    assert not may(index, "shop-1", "agent_id:refund-1", "refund-1"), "it could reach what is not allowed"
    index.apply("rule", "pay", rule("shop-1", "capability:refund.*", "allow"))
    assert may(index, "shop-1", "capability:weather+refund.pay", "refund-1"), "by two rules together"
    assert may(index, "shop-1", "agent_id:refund-1", "refund-1")
    index.apply("meta", "closed", b"0")
    assert may(index, "ann", "capability:weather", "refund-1")


@pytest.mark.parametrize("said", [b"1", b"yes", b"true", b"-1", b"\xff", b" "])
def test_whatever_is_not_zero_closes(said: bytes) -> None:
    index = offices()
    index.apply("meta", "closed", said)
    assert not may(index, "ann", "capability:weather", "refund-1")


def test_a_name_counts_for_a_replica_that_shows_it_and_against_everybody() -> None:
    index = offices()
    index.apply("meta", "closed", b"1")
    index.apply("rule", "r", rule("shop", "*", "allow"))
    assert may(index, "shop-7f", "capability:weather", "refund-1", name="shop")
    assert may(index, "shop", "capability:weather", "refund-1")
    assert not may(index, "mallory", "capability:weather", "refund-1", name="shop")
    index.apply("meta", "closed", b"")
    index.apply("rule", "r", rule("shop", "*"))
    assert not may(index, "mallory", "capability:weather", "refund-1", name="shop")


def test_groups_are_those_of_the_registration_as_it_is_now() -> None:
    index = offices()
    index.apply("rule", "r", rule("group:shops", "capability:weather"))
    assert index.access.by_group
    assert not may(index, "shop-1", "capability:weather", "refund-1")
    add(index, "shop-1", "sell", groups=())
    assert may(index, "shop-1", "capability:weather", "refund-1")
    index.apply("gone", "shop-1", b"")
    add(index, "shop-1", "sell", groups=("shops",))
    assert not may(index, "shop-1", "capability:weather", "refund-1")
    add(index, "refund-1", "other")
    assert may(index, "shop-1", "capability:other", "refund-1"), "and so are capabilities"


@pytest.mark.parametrize(
    ("junk", "denied", "left_alone"),
    [
        (b"\xff", ("ann", "capability:weather"), None),
        (b"[]", ("ann", "capability:weather"), None),
        (b"[" * 100_000, ("ann", "capability:weather"), None),
        (rule("shop-*", "capability:refund.*", "allow", until=5), ("shop-1", "capability:refund.pay"), "ann"),
        (rule("shop-*", "capability:refund.*", "maybe"), ("shop-1", "capability:refund.pay"), "ann"),
        (rule("shop-*", "refund"), ("shop-1", "capability:weather"), "ann"),
        (rule("group:", "agent_id:refund-1"), ("ann", "capability:weather"), None),
        (rule("shop-*", "*", type="NO TYPE"), ("shop-1", "capability:weather"), "ann"),
        (rule("shop-*", 7), ("shop-1", "capability:weather"), "ann"),  # type: ignore[arg-type]
        (b'{"source":"x","source":"y","target":"*","effect":"allow"}', ("ann", "capability:weather"), None),
    ],
)
def test_junk_denies_all_that_it_may_have_been_about(
    junk: bytes, denied: tuple[str, str], left_alone: str | None
) -> None:
    told: list[tuple[str, str]] = []
    index = CapabilityIndex(lambda name, problem: told.append((name, problem)))
    add(index, "refund-1", "refund.pay", "weather")
    index.apply("rule", "everything", rule("*", "*", "allow"))
    index.apply("rule", "junk", junk)
    source, pattern = denied
    caller = index.caller(source, "")
    assert caller is not None
    said = caller.refusal(index.agents["refund-1"], parse(pattern), "request") or ""
    assert said.startswith(f"the rule junk denies {source} ")
    assert "it cannot be read" in said
    assert left_alone is None or may(index, left_alone, pattern, "refund-1")
    assert [name for name, _ in told] == ["junk"]
    assert index.unreadable == 1
    index.apply("rule", "junk", b"")
    assert may(index, source, pattern, "refund-1")


def test_rules_that_cannot_be_read_at_all_allow_nothing() -> None:
    index = CapabilityIndex()
    agents = {"a": b'{"agent_id":"a","instance_id":"i","capabilities":[{"name":"work"}],"v":1}'}
    index.load(agents, {}, (), {}, {}, None)
    caller = index.caller("ann", "")
    assert caller is not None
    assert caller.refusal(index.agents["a"], parse("capability:work"), "request") == LOST
    index.load(agents, {}, (), {})
    assert index.caller("ann", "") is None


def test_a_glob_that_is_made_to_be_slow_is_quick() -> None:
    index = offices()
    index.apply("rule", "r", rule("*a" * 64, "*"))
    assert may(index, "a" * 127 + "b", "capability:weather", "refund-1")
    assert not may(index, "a" * 128, "capability:weather", "refund-1")


def test_many_sources_and_patterns_are_answered_and_not_all_remembered() -> None:
    index = offices()
    index.apply("rule", "r", rule("shop-*", "*"))
    for number in range(5_000):
        assert not may(index, f"shop-{number}", "capability:weather", "refund-1")


# ---------------------------------------------------------------- what becomes of a message
@pytest.mark.parametrize("scope", ["one", "all"])
def test_who_may_call_nobody_hears_it_at_once(scope: Scope) -> None:
    index = three()
    index.apply("rule", "no-work", rule("ann", "capability:work"))
    choice = decide(message(scope=scope, source="ann"), None, chooser(index), NOW)
    end = finish(choice)
    assert (end.code, end.message) == ("auth.denied", "ann may not call capability:work")
    assert end.details["reasons"][0] == {
        "agent": "a",
        "filter": "rules",
        "reason": "the rule no-work denies ann capability:work",
    }
    assert (end.details["candidates"], choice.why.counts) == (3, {"matched": 3, "fit": 0, "rules": 3})
    assert isinstance(step(decide(message(source="bob"), None, chooser(index), NOW)), Deliver)


def test_only_who_may_be_called_is_chosen_or_gets_a_leg() -> None:
    index = three()
    index.apply("rule", "r", rule("ann", "agent_id:b"))
    for seed in range(20):
        chosen = step(decide(message(source="ann"), None, chooser(index, seed), NOW))
        assert chosen in {Deliver("a"), Deliver("c")}
    choice = decide(message(source="ann", scope="all"), None, chooser(index), NOW)
    assert choice.steps == (Deliver("a"), Deliver("c"))
    assert choice.why.counts["rules"] == 1


def test_who_is_missing_just_now_and_may_be_called_is_waited_for() -> None:
    index = three()
    index.apply("rule", "r", rule("ann", "agent_id:a"))
    index.apply("rule", "s", rule("ann", "agent_id:b"))
    late = NOW + 15_001
    for agent_id in ("a", "b"):
        index.beat(agent_id, f"{agent_id}.1", late, b"{}")
    asked = message(source="ann", start_at_ms=late, first_at_ms=late + 30_000, total_at_ms=late + 30_000)
    assert isinstance(step(decide(asked, None, chooser(index), late)), Delay)
    index.apply("rule", "t", rule("ann", "agent_id:c"))
    assert finish(decide(asked, None, chooser(index), late)).code == "auth.denied"
    silenced = NOW + 60_000
    asked = message(source="ann", start_at_ms=silenced, first_at_ms=silenced + 1, total_at_ms=silenced + 30_000)
    assert finish(decide(asked, None, chooser(index), silenced)).code == "auth.denied", "nobody is there, and none may"


def test_who_is_not_ready_and_may_be_called_is_waited_for() -> None:
    index = three()
    index.apply("rule", "r", rule("ann", "agent_id:a"))
    silence(index, "b", "c")
    assert isinstance(step(decide(message(source="ann"), None, chooser(index), NOW)), Delay)


@pytest.mark.parametrize("state", [LegState.RETURNED, LegState.WAITING, LegState.HELD])
def test_a_rule_that_comes_later_ends_what_is_not_with_anybody(state: LegState) -> None:
    index = three()
    index.apply("rule", "r", rule("ann", "*"))
    core = '{"status":"retryable","code":"handler.error"}'
    before = leg(state, agent="a", core=core, tried=("a",)) if state is LegState.RETURNED else leg(state)
    assert finish(decide(message(source="ann"), before, chooser(index), NOW)).code == "auth.denied"


def test_what_lies_in_an_inbox_stays_and_moves_to_nobody_who_may_not_have_it() -> None:
    index = three()
    index.apply("state", "a/a.1", DRAINING, NOW)
    index.apply("rule", "r", rule("ann", "*"))
    assert decide(message(source="ann"), queued(), chooser(index), NOW).steps == (Stay(),)


def test_the_leg_of_a_broadcast_that_may_not_go_on_ends() -> None:
    index = three()
    index.apply("rule", "r", rule("ann", "agent_id:b"))
    found = step(decide(message(source="ann", scope="all"), leg(LegState.WAITING, agent="b"), chooser(index), NOW))
    assert isinstance(found, Finish)
    assert found.code == "auth.denied"


def test_a_fallback_is_judged_as_what_it_is_and_no_way_round_a_rule() -> None:
    index = CapabilityIndex()
    add(index, "big", "work")
    add(index, "small", "basic")
    index.apply("route", "capability:work", b'{"fallback": "capability:basic"}')
    index.apply("rule", "r", rule("ann", "capability:work"))
    assert finish(decide(message(source="ann"), None, chooser(index), NOW)).code == "auth.denied"
    index.apply("rule", "r", rule("ann", "capability:basic"))
    silence(index, "big")
    assert isinstance(step(decide(message(source="ann"), None, chooser(index), NOW)), Delay), "big may come back"
    assert step(decide(message(source="bob"), None, chooser(index), NOW)) == Deliver("small", via="capability:basic")


def test_what_nobody_offers_is_not_found_in_a_closed_env_too() -> None:
    index = CapabilityIndex()
    index.apply("meta", "closed", b"1")
    late = NOW + 3_000
    assert finish(decide(message(source="ann"), leg(LegState.WAITING), chooser(index), late)).code == "route.not_found"


def test_who_had_a_message_may_answer_its_sender_and_nobody_else() -> None:
    index = CapabilityIndex()
    for agent_id in ("asker", "asked", "other"):
        add(index, agent_id, agent_id)
    index.apply("meta", "closed", b"1")
    index.apply("rule", "r", rule("asked", "*"))

    def sent(to: str, **fields: object) -> object:
        return step(decide(message(f"agent_id:{to}", source="asked", **fields), None, chooser(index), NOW))

    assert sent("asker", replies_to="asker", was_asked=True) == Deliver("asker")
    for refused in (
        sent("asker"),
        sent("asker", replies_to="asker"),  # it says that it answers, and never had the message
        sent("other", replies_to="asker", was_asked=True),
    ):
        assert isinstance(refused, Finish)
        assert refused.code == "auth.denied"


# ---------------------------------------------------------------- what an admin writes
def fields(name: str, data: bytes) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        read_call_rule(name, data)
    return [problem["field"] for problem in caught.value.details["problems"]]


def test_all_that_is_wrong_is_told_at_once() -> None:
    bad = b'{"source": "a b", "target": "refund", "effect": "maybe", "type": "No", "until": 5}'
    assert fields("no name", bad) == ["name", "until", "source", "target", "effect", "type"]
    with pytest.raises(ConfigError, match=r"group:billing.*capability:refund\.\*.*allow"):
        read_call_rule("r", bad)


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (b"", [""]),
        (b"[]", [""]),
        (b"\xff", [""]),
        (b"{}", ["source", "target", "effect"]),
        (b'{"source": null, "target": "*", "effect": "allow"}', ["source"]),
        (rule("*", "capability:a+b"), ["target"]),
        (rule("*", "capability:Refund"), ["target"]),
        (rule("*", "intent:x"), ["target"]),
        (rule("capability:x", "*"), ["source"]),
        (rule("*" * 129, "*"), ["source"]),
        (rule("", "*"), ["source"]),
        (b'{"source":"a","source":"b","target":"*","effect":"deny"}', [""]),
    ],
)
def test_each_kind_of_mistake_names_its_field(data: bytes, told: list[str]) -> None:
    assert fields("r", data) == told


def test_what_is_read_is_what_routers_follow() -> None:
    said = read_call_rule("r", rule("group:shops", "capability:refund.*", "allow", type="event"))
    assert (said.source, said.target, said.effect, said.type) == (
        "group:shops",
        "capability:refund.*",
        "allow",
        "event",
    )
