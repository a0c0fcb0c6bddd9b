"""Patterns are parsed as they are written, and bare names as people mean them."""

import pytest

from reach.errors import EnvelopeError
from reach.routing.pattern import Term, parse, resolve_bare


class Known:
    def __init__(self, *agents: str) -> None:
        self.agents = agents

    def has_agent(self, agent_id: str) -> bool:
        return agent_id in self.agents


def test_every_kind_is_parsed() -> None:
    assert parse("agent_id:Refund-01").name == "Refund-01"
    assert parse("group:emea.tier_1").kind == "group"
    assert parse("capability:refund").terms == (Term("refund"),)
    assert parse("capability:a.b+c.*").terms == (Term("a.b"), Term("c", prefix=True))
    assert parse("intent: refund my order ").name == "refund my order"


def test_a_capability_that_is_named_twice_counts_once() -> None:
    assert parse("capability:a+b+a").terms == (Term("a"), Term("b"))


@pytest.mark.parametrize(
    "text",
    [
        *("", "refund", "skill:a", "agent_id:", "agent_id:a b", "agent_id:a\n", "group:{x}", "intent:  "),
        *("capability:", "capability:a+", "capability:*", "capability:a.*.b", "capability:A", "capability:a + b"),
    ],
)
def test_what_is_no_pattern_is_told(text: str) -> None:
    with pytest.raises(EnvelopeError) as caught:
        parse(text)
    assert caught.value.code == "target.bad_pattern"


@pytest.mark.parametrize(
    ("term", "capability", "is_meant"),
    [
        (Term("a"), "a", True),
        (Term("a"), "a.b", False),
        (Term("a", prefix=True), "a", False),
        (Term("a", prefix=True), "a.b", True),
        (Term("a", prefix=True), "a.b.c", True),
        (Term("a", prefix=True), "ab.c", False),
    ],
)
def test_a_prefix_means_what_lies_below(term: Term, capability: str, is_meant: bool) -> None:
    assert term.matches(capability) is is_meant


def test_a_bare_name_is_an_agent_first_and_a_capability_second() -> None:
    assert resolve_bare("refund", Known("refund")).text == "agent_id:refund"
    assert resolve_bare("refund", Known()).text == "capability:refund"
    assert resolve_bare("group:x", Known("group:x")).kind == "group"


def test_a_bare_name_that_can_be_neither_is_refused() -> None:
    with pytest.raises(EnvelopeError) as caught:
        resolve_bare("No Such Thing", Known())
    assert caught.value.code == "target.bad_pattern"
