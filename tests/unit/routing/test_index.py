"""The index says who answers a pattern, follows changes, and stays flat when there are many."""

import time

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reach.envelope.registration import Beat
from reach.routing import index as index_module
from reach.routing.index import CapabilityIndex
from reach.routing.pattern import parse
from tests.unit.routing.seen import NOW, add, stored


def found(index: CapabilityIndex, pattern: str) -> list[str]:
    return [agent.agent_id for agent in index.match(parse(pattern))]


@pytest.fixture
def index() -> CapabilityIndex:
    made = CapabilityIndex()
    add(made, "b", "refund.create", "refund.check", "pay", groups=("emea",))
    add(made, "a", "refund.create", groups=("emea", "apac"))
    add(made, "c", "refund", "pay")
    return made


@pytest.mark.parametrize(
    ("pattern", "agents"),
    [
        ("agent_id:a", ["a"]),
        ("agent_id:nobody", []),
        ("group:emea", ["a", "b"]),
        ("group:nobody", []),
        ("capability:pay", ["b", "c"]),
        ("capability:refund", ["c"]),
        ("capability:nothing", []),
        ("capability:refund.*", ["a", "b"]),
        ("capability:refund.*+pay", ["b"]),
        ("capability:pay+refund", ["c"]),
        ("capability:pay+nothing", []),
        ("capability:z.*", []),
        ("intent:give me my money back", []),
    ],
)
def test_a_pattern_is_answered(index: CapabilityIndex, pattern: str, agents: list[str]) -> None:
    assert found(index, pattern) == agents
    assert found(index, pattern) == agents, "and again from memory"


def test_changes_are_followed(index: CapabilityIndex) -> None:
    assert found(index, "capability:pay") == ["b", "c"]
    add(index, "d", "pay", groups=("apac",))
    assert found(index, "capability:pay") == ["b", "c", "d"]
    add(index, "b", "hold")
    assert found(index, "capability:pay") == ["c", "d"]
    assert found(index, "capability:hold") == ["b"]
    assert found(index, "group:emea") == ["a"]
    for gone in ("c", "d", "a", "nobody"):
        index.apply("gone", gone, b"")
    assert found(index, "capability:pay") == found(index, "group:emea") == found(index, "group:apac") == []
    assert not index.has_agent("a")
    assert index.has_agent("b")


def test_a_new_declaration_keeps_the_instances(index: CapabilityIndex) -> None:
    index.apply("agent", "a", stored("a", "pay"))
    assert index.agents["a"].last_beat_ms() == NOW


def test_an_instance_that_leaves_takes_only_its_beats(index: CapabilityIndex) -> None:
    index.beat("a", "a.2", NOW + 1, b"{}")
    index.apply("gone", "a/a.1", b"")
    index.apply("gone", "nobody/x", b"")
    assert list(index.agents["a"].instances) == ["a.2"]


def test_a_change_of_state_is_a_beat(index: CapabilityIndex) -> None:
    index.apply("state", "a/a.1", b'{"state":"draining"}', NOW + 5)
    assert index.agents["a"].state(NOW) == "draining"
    assert index.agents["a"].last_beat_ms() == NOW + 5
    index.apply("state", "a/a.1", b'{"state":"ready"}', NOW + 4)
    assert index.agents["a"].state(NOW) == "draining", "an older one says nothing new"


def test_what_cannot_be_read_is_left_out_and_counted(index: CapabilityIndex) -> None:
    index.apply("agent", "x", b"junk")
    index.apply("agent", "y", stored("z", "pay"))
    index.apply("agent", "a", b'{"gone_at":1,"v":2}')
    assert not index.beat("b", "b.1", NOW, b"junk")
    assert not index.beat("nobody", "i", NOW, b"{}")
    index.apply("route", "capability:pay", b"junk")
    assert index.unreadable == 4
    assert sorted(index.agents) == ["b", "c"]


def test_load_replaces_all_but_the_beats(index: CapabilityIndex) -> None:
    index.apply("route", "capability:old", b'{"strategy":"direct"}')
    routes = {"capability:pay": b'{"strategy":"round_robin"}'}
    index.load({"a": stored("a", "pay"), "n": stored("n", "pay")}, routes, {"own.type"}, {"max_fanout": "7"})
    assert found(index, "capability:pay") == ["a", "n"]
    assert found(index, "capability:refund.*") == []
    assert index.agents["a"].last_beat_ms() == NOW
    assert index.agents["n"].last_beat_ms() == 0
    assert index.policy("capability:pay").strategy == "round_robin"
    assert index.policy("capability:old").strategy is None
    assert index.has_type("own.type")
    assert index.has_type("request")
    assert index.setting("max_fanout", 5) == 7


def test_settings_types_and_policies_come_and_go() -> None:
    index = CapabilityIndex()
    index.apply("meta", "max_fanout", b"12")
    assert (index.setting("max_fanout", 5), index.setting("none", 5)) == (12, 5)
    for odd in (b"twelve", b"-1", b"9" * 16, b"9" * 5_000, "٣".encode(), b""):
        index.apply("meta", "odd", odd)
        assert index.setting("odd", 5) == 5
    index.apply("meta", "max_fanout", b"")
    assert index.setting("max_fanout", 5) == 5
    index.apply("type", "own", b"1")
    assert index.has_type("own")
    index.apply("type", "own", b"")
    assert not index.has_type("own")
    index.apply("type", "request", b"")
    assert index.has_type("request"), "built in"
    index.apply("route", "group:x", b'{"zone":"hard"}')
    assert index.policy("group:x").zone == "hard"
    index.apply("route", "group:x", b"")
    assert index.policy("group:x").zone is None
    index.apply("circuit", "later", b"1")
    assert index.agents == {}


def test_a_registration_brings_its_types() -> None:
    index = CapabilityIndex()
    index.apply("agent", "a", stored("a", "x", accepts=({"type": "intent.request"},)))
    assert index.has_type("intent.request")


def test_silence_is_counted_from_the_last_beat_or_the_floor() -> None:
    index = CapabilityIndex()
    assert index.alive_since_ms(NOW) == NOW - 15_000
    index.floor_ms = NOW - 40_000
    assert index.alive_since_ms(NOW) == NOW - 40_000
    index.floor_ms = NOW
    assert index.alive_since_ms(NOW) == NOW - 15_000


def test_silent_instances_are_forgotten_after_a_minute(index: CapabilityIndex) -> None:
    index.beat("a", "a.2", NOW + 50_000, b"{}")
    assert index.forget_silent(NOW + 60_000) == 0
    index.floor_ms = NOW
    assert index.forget_silent(NOW + 70_000) == 0, "a grace protects them"
    index.floor_ms = 0
    assert index.forget_silent(NOW + 70_000) == 3
    assert list(index.agents["a"].instances) == ["a.2"]
    assert index.has_agent("b")
    index.forget_beats()
    assert index.agents["a"].instances == {}


def test_made_up_patterns_do_not_fill_the_memory(index: CapabilityIndex, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index_module, "MAX_REMEMBERED", 3)
    for at in range(10):
        assert found(index, f"group:x{at}") == []
    assert len(index._remembered) <= 3


NAMES = st.sampled_from(["a", "a.b", "a.b.c", "ab", "b", "b.c"])


@given(
    agents=st.dictionaries(st.sampled_from("pqrst"), st.frozensets(NAMES, max_size=4)),
    gone=st.sets(st.sampled_from("pqrst")),
    terms=st.lists(st.tuples(NAMES, st.booleans()), min_size=1, max_size=3),
)
def test_the_index_answers_as_asking_everybody_would(
    agents: dict[str, frozenset[str]], gone: set[str], terms: list[tuple[str, bool]]
) -> None:
    index = CapabilityIndex()
    for agent_id, capabilities in agents.items():
        add(index, agent_id, *sorted(capabilities))
    for agent_id in gone:
        index.apply("gone", agent_id, b"")
    pattern = parse("capability:" + "+".join(name + (".*" if prefix else "") for name, prefix in terms))
    left = {agent_id: names for agent_id, names in agents.items() if agent_id not in gone}
    everybody = [
        agent_id
        for agent_id, names in sorted(left.items())
        if all(any(term.matches(name) for name in names) for term in pattern.terms)
    ]
    assert [agent.agent_id for agent in index.match(pattern)] == everybody
    assert index._offers.names() == sorted({name for names in left.values() for name in names})


def test_a_lookup_is_flat_in_the_number_of_agents() -> None:
    def took(count: int) -> float:
        index = CapabilityIndex()
        data = stored("X", "other")
        agents = {f"n{at}": data.replace(b'"X"', b'"n%d"' % at) for at in range(count)}
        agents |= {f"w{at}": stored(f"w{at}", "work", "help") for at in range(4)}
        index.load(agents, {}, (), {})
        pattern = parse("capability:work+help")
        best = float("inf")
        for _ in range(7):
            began = time.perf_counter()
            for _ in range(200):
                index._remembered.clear()  # the lookup itself, not the memory of it
                assert len(index.match(pattern)) == 4
            best = min(best, time.perf_counter() - began)
        return best

    small, large = took(10), took(10_000)
    assert large < 5 * small, f"{small * 5000:.1f} us with 10 agents, {large * 5000:.1f} us with 10,000"


def test_the_state_of_an_agent_is_the_best_of_its_live_instances(index: CapabilityIndex) -> None:
    agent = index.agents["a"]
    agent.beat("a.1", NOW, Beat(state="not_ready", reason="loading", partitions=2))
    agent.beat("a.2", NOW + 9, Beat(state="busy", inflight=7, partitions=4))
    agent.beat("a.3", NOW - 20_000, Beat(state="ready"))
    since = NOW - 15_000
    assert (agent.state(since), agent.free_slots(since), agent.partitions(since)) == ("busy", 1, 4)
    assert agent.reason(since) == "loading"
    assert agent.last_beat_ms() == NOW + 9
    assert agent.state(NOW + 5) == "busy"
    assert agent.reason(NOW + 5) == ""
    assert (agent.state(NOW + 10), agent.partitions(NOW + 10), agent.free_slots(NOW + 10)) == ("silent", 1, 0)


def test_the_longest_time_is_that_of_the_capabilities_asked_for() -> None:
    index = CapabilityIndex()
    capabilities = [{"name": "a.b", "max_process_ms": 60_000}, {"name": "a.c", "max_process_ms": 70_000}, {"name": "d"}]
    body = {"agent_id": "a", "instance_id": "i", "capabilities": capabilities, "max_process_ms": 20_000, "v": 1}
    index.apply("agent", "a", msgspec.json.encode(body))
    agent = index.agents["a"]
    assert agent.longest_ms(parse("capability:a.b").terms) == 60_000
    assert agent.longest_ms(parse("capability:a.*").terms) == 70_000
    assert agent.longest_ms(parse("capability:d").terms) == 20_000
    assert agent.longest_ms(parse("agent_id:a").terms) == 20_000
    add(index, "b", "d")
    assert index.agents["b"].longest_ms(parse("capability:d").terms) == 0


def test_accepts_of_one_type_are_put_together() -> None:
    index = CapabilityIndex()
    accepts = ({"type": "t", "schemas": ["a.v1"]}, {"type": "t", "schemas": ["b.v1"]}, {"type": "u"})
    index.apply("agent", "a", stored("a", "x", accepts=(*accepts, {"type": "u", "schemas": ["c.v1"]})))
    assert index.agents["a"].accepts == {"t": frozenset({"a.v1", "b.v1"}), "u": None}


def test_a_beat_that_says_nothing_new_is_a_sign_of_life_all_the_same(index: CapabilityIndex) -> None:
    told = b'{"state":"busy","load":50}'
    assert index.beat("a", "a.1", NOW + 1, told)
    before = index.agents["a"].instances["a.1"].beat
    assert index.agents["a"].history(NOW).at_ms == NOW + 1
    assert index.beat("a", "a.1", NOW + 9, told)
    assert index.beat("a", "a.1", NOW + 5, told), "an older one changes nothing"
    assert index.agents["a"].instances["a.1"].beat is before, "it was not even read"
    assert index.agents["a"].last_beat_ms() == index.agents["a"].history(NOW).at_ms == NOW + 9
    assert index.agents["a"].state(NOW + 9) == "busy"
    assert not index.beat("nobody", "x", NOW, told)
