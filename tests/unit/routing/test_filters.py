"""Every filter says yes, or why not; preferences never leave nobody."""

from typing import Any

import pytest

from reach.envelope.registration import Beat, RoutePolicy
from reach.routing.filters import ABLE, FILTERS, MEANT, View, sift
from reach.routing.index import CapabilityIndex
from reach.routing.message import Message
from tests.unit.routing.seen import ACCEPT_ONE, NOW, add, message


def view(**fields: object) -> View:
    values: dict[str, object] = {"now_ms": NOW, "alive_since_ms": NOW - 15_000, **fields}
    return View(**values)  # type: ignore[arg-type]


def refusal(asked: Message, seen: View, **declared: object) -> tuple[str, str] | None:
    """What is said to one agent `a` that declares this."""
    index = CapabilityIndex()
    add(index, "a", "work", **declared)  # type: ignore[arg-type]
    sifted = sift(index.agents.values(), asked, seen)
    if sifted.fits:
        assert not sifted.refused
        return None
    return sifted.refused[0].filter, sifted.refused[0].reason


HARD, PREFERRED = RoutePolicy(zone="hard"), RoutePolicy(zone="preferred")


@pytest.mark.parametrize(
    ("declared", "asked", "seen", "said"),
    [
        ({}, {}, {}, None),
        ({"env": "prod"}, {}, {}, ("env", "declared for env prod")),
        ({"zone": "b"}, {"zone": "a"}, {"policy": HARD}, ("zone", "in zone b, the sender in a")),
        ({}, {"zone": "a"}, {"policy": HARD}, ("zone", "in zone none, the sender in a")),
        ({"zone": "a"}, {"zone": "a"}, {"policy": HARD}, None),
        ({"zone": "b"}, {}, {"policy": HARD}, None),
        ({"zone": "b"}, {"zone": "a"}, {}, None),
        ({"zone": "b"}, {"zone": "a"}, {"policy": PREFERRED}, None),
        ({"beat": None}, {}, {}, ("alive", "no instance has beaten yet, or none of its beats can be read")),
        ({"at_ms": NOW - 15_000}, {}, {}, None),
        ({"at_ms": NOW - 15_001}, {}, {}, ("alive", "silent for 15.0 s, suspect after 15")),
        ({}, {"partition": 1}, {}, ("partition", "reads 1 partitions, this is number 1")),
        ({"partitions": 2}, {"partition": 1}, {}, None),
        ({"beat": Beat(partitions=2)}, {"partition": 1}, {}, None),
        ({}, {"type": "event"}, {}, None),
        ({}, {"type": "own"}, {}, ("accepts", "does not accept the type own")),
        ({"accepts": ACCEPT_ONE}, {"schema": "refund.request.v1"}, {}, None),
        ({"accepts": ACCEPT_ONE}, {"schema": "x.v1"}, {}, ("accepts", "does not accept the schema x.v1")),
        ({"accepts": ACCEPT_ONE}, {}, {}, None),
        ({}, {"hops": frozenset({"a"})}, {}, ("loop", "is among previous_hops")),
        ({}, {"hops": frozenset({"b"})}, {}, None),
        ({}, {"hops": frozenset({"a"}), "replies_to": "a"}, {}, None),
        ({}, {"hops": frozenset({"a"}), "replies_to": "b"}, {}, ("loop", "is among previous_hops")),
        ({}, {}, {"unfit": {"a": "full"}}, ("capacity", "its inbox is full")),
        ({}, {}, {"unfit": {"a": "gone"}}, ("capacity", "its inbox is gone")),
        ({"beat": Beat(state="draining")}, {}, {}, ("ready", "draining")),
        ({"beat": Beat(state="not_ready", reason="no key")}, {}, {}, ("ready", "not_ready: no key")),
        ({"beat": Beat(state="busy")}, {}, {}, None),
        ({}, {}, {"tried": frozenset({"a"})}, None),
    ],
)
def test_each_filter(
    declared: dict[str, object], asked: dict[str, Any], seen: dict[str, object], said: tuple[str, str] | None
) -> None:
    assert refusal(message(**asked), view(**seen), **declared) == said


def test_a_reply_may_go_back_to_a_replica_of_its_sender() -> None:
    index = CapabilityIndex()
    path = ("refund-audit", "refunds", "refund-01", "b")
    for agent_id in path:
        add(index, agent_id, "work")
    asked = message(hops=frozenset(path), last_hops=path[-2:], replies_to="refund")
    sifted = sift(index.agents.values(), asked, view())
    assert [agent.agent_id for agent in sifted.fits] == ["refund-01"]


def test_filters_are_asked_in_the_order_of_the_protocol() -> None:
    assert [name for name, _ in FILTERS] == [
        "env",
        "zone",
        "alive",
        "partition",
        "accepts",
        "rules",
        "loop",
        "circuit",
        "capacity",
        "ready",
    ]
    assert MEANT + ABLE == FILTERS
    said = refusal(message(type="own"), view(unfit={"a": "full"}), env="prod", beat=Beat(state="draining"))
    assert said is not None
    assert said[0] == "env"


def three(**zones: str) -> CapabilityIndex:
    index = CapabilityIndex()
    for agent_id in ("a", "b", "c"):
        add(index, agent_id, "work", zone=zones.get(agent_id))
    return index


def names(index: CapabilityIndex, asked: Message, seen: View) -> tuple[list[str], list[tuple[str, str]]]:
    sifted = sift(index.agents.values(), asked, seen)
    assert sifted.count("tried") == sum(one.filter == "tried" for one in sifted.refused)
    return [agent.agent_id for agent in sifted.fits], [(one.agent, one.filter) for one in sifted.refused]


def test_who_has_tried_goes_last() -> None:
    index = three()
    assert names(index, message(), view(tried=frozenset({"a", "b"}))) == (["c"], [("a", "tried"), ("b", "tried")])
    assert names(index, message(), view(tried=frozenset({"a", "b", "c"}))) == (["a", "b", "c"], [])


def test_a_tried_one_that_is_all_that_fits_is_taken() -> None:
    index = three()
    index.apply("state", "b/b.1", b'{"state":"draining"}', NOW)
    index.apply("state", "c/c.1", b'{"state":"not_ready"}', NOW)
    fits, refused = names(index, message(), view(tried=frozenset({"a"})))
    assert fits == ["a"]
    assert refused == [("b", "ready"), ("c", "ready")]


def test_who_was_told_of_room_goes_there() -> None:
    fits, refused = names(three(), message(), view(room="b"))
    assert fits == ["b"]
    assert refused == [("a", "room"), ("c", "room")]


def test_room_at_one_that_does_not_fit_any_more_is_nobody_s() -> None:
    fits, _ = names(three(), message(), view(room="b", unfit={"b": "full"}))
    assert fits == ["a", "c"]


def test_the_near_are_preferred_but_a_fresh_one_far_away_is_better_than_a_tried_one() -> None:
    index = three(a="x", b="x", c="y")
    asked = message(zone="x")
    assert names(index, asked, view(policy=PREFERRED)) == (["a", "b"], [("c", "zone")])
    assert names(index, asked, view(policy=PREFERRED, tried=frozenset({"a", "b"})))[0] == ["c"]
    assert names(index, message(zone="z"), view(policy=PREFERRED))[0] == ["a", "b", "c"]
