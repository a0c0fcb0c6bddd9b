"""How agents have done over the last minute, and the table of it."""

from reach.cli.top import Line, table_of
from reach.events.pace import Pace, Window
from tests.unit.events.test_traced import START, record


def test_runs_of_the_last_minute_are_counted_by_agent() -> None:
    window = Window()
    ends = [record(n, "agent.completed", "m", agent="a", code="ok", duration_us=n * 1_000) for n in range(1, 101)]
    ends += [record(n, "agent.completed", "m", agent="b", code=code) for n, code in enumerate(("ok", "handler.error"))]
    ends += [record(1, "agent.completed", "m", agent="b", code="stale"), record(1, "agent.received", "m", agent="b")]
    window.take(ends)
    paces = window.paces(START + 200_000)
    assert paces["a"] == Pace(runs=100, per_s=100 / 60, success=1.0, p50_ms=50.0, p99_ms=99.0)
    assert paces["b"] == Pace(runs=2, per_s=2 / 60, success=0.5, p50_ms=0.0, p99_ms=0.0)
    assert window.paces(START + 60_050_000)["a"].runs == 50
    assert window.paces(START + 61_000_000) == {}


def test_the_table() -> None:
    busy = Line(agent="bank", state="busy", alive=2, instances=2, load=0.5, in_flight=2, inbox=7,
        pace=Pace(90, 1.5, 0.989, 12.4, 240.0))  # fmt: skip
    idle = Line(agent="desk", state="not_ready", reason="no key", instances=1)
    assert table_of([busy, idle]) == (
        "AGENT  STATE               INSTANCES  LOAD  IN FLIGHT  INBOX  PER S  SUCCESS  P50    P99\n"
        "bank   busy                2/2        50%   2          7      1.5    98.9%    12 ms  240 ms\n"
        "desk   not_ready (no key)  0/1        0%    0          0      0.0    -        -      -"
    )
