"""What others have written is shown in part where it is long, and never steers the terminal: in trace, explain, top, tail and search."""

import re
from typing import Any

import pytest

from reach.cli import edge
from reach.cli.decided import lines_of as decisions_as_lines
from reach.cli.picture import lines_of
from reach.cli.recorded import line_of
from reach.cli.top import Line, table_of
from reach.events.decided import decisions_of
from reach.events.traced import trace_of
from tests.unit.events.test_traced import record

FIELDS = (
    *("point", "msg_id", "correlation_id", "agent", "instance", "node", "code", "source", "schema", "type"),
    *("pattern", "strategy", "chosen", "via", "fallback", "tier", "policy"),
)
POINTS = ("message.received", "route.matched", "route.sent", "agent.received", "agent.completed", "message.dead")
#: Clears a screen, sets a title, turns text around, ends a line, and the same by C1.
STEERING = "\x1b[2J\x1b]0;x\x07\u202e\r\nforged line\t\x9b2J\x00"
_STEERS = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]")


def told(field: str, text: str) -> list[dict[str, Any]]:
    of: dict[str, Any] = {
        "counts": {"matched": 1, "fit": 1},
        "strategy": "score",
        "chosen": "a1",
        "agent": "a1",
        "hand": "h",
    }
    of |= {"candidates": [{"agent": "a1", "filter": "state", "reason": "draining"}]}
    return [record(at, point, "m1", **of) | {field: text} for at, point in enumerate(POINTS)]


def shown(field: str, text: str) -> list[str]:
    records = told(field, text)
    decisions = decisions_of(records[0]["msg_id"], records)
    assert decisions is not None
    return [*lines_of(trace_of("c1", records)), *decisions_as_lines(decisions), *map(line_of, records)]


@pytest.mark.parametrize("field", FIELDS)
def test_a_huge_text_is_shown_in_part(field: str, capsys: pytest.CaptureFixture[str]) -> None:
    lines = shown(field, "x" * 300_000)
    assert len("\n".join(lines)) < 40_000
    edge.show("\n".join(lines))
    assert "x…" in capsys.readouterr().out


@pytest.mark.parametrize("field", FIELDS)
def test_no_text_steers_the_terminal(field: str, capsys: pytest.CaptureFixture[str]) -> None:
    lines = shown(field, STEERING)
    edge.show("\n".join(lines))
    out = capsys.readouterr().out
    assert not _STEERS.search(out)
    assert not any(line.startswith("forged") for line in out.splitlines())
    assert "\\x1b[2J" in out
    assert len(out.splitlines()) == len("\n".join(shown(field, "x" * 10)).splitlines())


@pytest.mark.parametrize("field", ["agent", "filter", "reason"])
def test_a_candidate_is_shown_in_part_and_steers_nothing(field: str) -> None:
    for text in ("x" * 300_000, STEERING):
        seen = [{"agent": "a1", "filter": "state", "reason": "full"} | {field: text}]
        found = decisions_of("m1", [record(1, "route.matched", "m1", counts={"matched": 1}, candidates=seen)])
        assert found is not None
        lines = decisions_as_lines(found)
        assert len("\n".join(lines)) < 1_000
        assert not _STEERS.search("".join(lines))


def test_names_of_filters_and_huge_numbers_are_bounded() -> None:
    counts = {"x" * 300_000: 1, STEERING: 2, "wait_ms": 10**400, "fit": 10**400} | {f"f{n}": n for n in range(500)}
    seen = [{"agent": "a1", "score": 10**400}]
    records = [
        record(1, "route.matched", "m1", counts=counts | {"matched": 3}, candidates=seen, duration_us=10**400),
        record(2, "message.retried", "m1", counts=counts, leg=10**400, attempt=10**400, round=10**400),
        record(3, "agent.completed", "m1") | {"at_us": 10**400},
    ]
    found = decisions_of("m1", records)
    assert found is not None
    lines = [*lines_of(trace_of("c1", records)), *decisions_as_lines(found), *map(line_of, records)]
    assert len("\n".join(lines)) < 5_000
    assert not _STEERS.search("".join(lines))


def test_top_shows_names_and_reasons_in_part() -> None:
    for text in ("x" * 300_000, STEERING):
        table = table_of([Line(agent=text, state="not_ready", reason=text)])
        assert len(table) < 2_000
        assert not _STEERS.search(table)
        assert len(table.splitlines()) == 2


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("agent_id:a-1", "agent_id:a-1"),
        ("x" * 256, "x" * 256),
        ("x" * 257, f"{'x' * 255}…"),
        ("a\nb\tc", "a\\nb\\tc"),
        ("\x1b" * 200, "\\x1b" * 63 + "\\x1…"),
    ],
)
def test_what_is_brief(text: str, said: str) -> None:
    assert edge.brief(text) == said
    assert len(edge.brief(text)) <= 256


def test_of_many_names_some_are_told() -> None:
    assert edge.briefly(["a", "b\n"]) == "a, b\\n"
    assert edge.briefly([str(n) for n in range(22)], 2) == "0, 1 and 20 more"
