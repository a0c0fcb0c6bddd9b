"""What `reach agents` says of each agent."""

import pytest

from reach.cli.agents import _ago, _circuits, _facts, _row
from reach.routing.index import CapabilityIndex
from tests.unit.routing.seen import NOW, add


@pytest.mark.parametrize(
    ("until_ms", "said"),
    [
        (NOW + 12_000, "ready (circuit open: 5 failures in a row, asked again in 12 s)"),
        (NOW - 1, "ready (circuit open: 5 failures in a row, asked again by a probe)"),
    ],
)
def test_an_open_circuit_is_told(until_ms: int, said: str) -> None:
    index = CapabilityIndex()
    add(index, "a", "work")
    facts = _facts(index.agents["a"], NOW - 15_000, NOW)
    assert _row(facts | {"circuits": _circuits(index, "a", NOW)})[1] == "ready"
    index.apply("circuit", "a/0", b'{"until_ms":%d,"why":"5 failures in a row"}' % until_ms)
    circuits = _circuits(index, "a", NOW)
    assert circuits == [{"partition": 0, "why": "5 failures in a row", "probe_in_ms": max(until_ms - NOW, 0)}]
    assert _row(facts | {"circuits": circuits})[1] == said


@pytest.mark.parametrize(
    ("ms", "said"),
    [
        (None, "-"),
        (-5, "0 s ago"),
        (119_999, "119 s ago"),
        (120_000, "2 min ago"),
        (7_199_999, "119 min ago"),
        (7_200_000, "2 h ago"),
    ],
)
def test_how_long_ago_is_told_as_people_say_it(ms: int | None, said: str) -> None:
    assert _ago(ms) == said
