"""How agents have done over the last minute, and the table of it."""

from reach.cli.top import Line, table_of
from reach.events.pace import Pace, Window
from tests.unit.events.test_traced import START, record


def test_runs_of_the_last_minute_are_counted_by_agent() -> None:
    window = Window()
    ends = [record(n * 200, "agent.completed", "m", agent="a", code="ok", duration_us=n * 1_000) for n in range(1, 101)]
    ends += [record(n, "agent.completed", "m", agent="b", code=code) for n, code in enumerate(("ok", "handler.error"))]
    ends += [record(1, "agent.completed", "m", agent="b", code="stale"), record(1, "agent.received", "m", agent="b")]
    window.take(ends)
    paces = window.paces(START + 21_000_000)
    assert paces["a"] == Pace(runs=100, per_s=100 / 60, success=1.0, p50_ms=50.0, p99_ms=99.0)
    assert paces["b"] == Pace(runs=2, per_s=2 / 60, success=0.5, p50_ms=0.0, p99_ms=0.0)
    assert window.paces(START + 70_100_000)["a"].runs == 50
    assert window.paces(START + 81_000_000) == {}


def test_every_run_of_a_minute_is_counted_however_many_there_are() -> None:
    window = Window()
    for second in range(60):
        ends = [record(second * 1_000 + n / 2, "agent.completed", "m", agent="a", code="ok") for n in range(2_000)]
        window.take(ends * 2)
    pace = window.paces(START + 60_000_000)["a"]
    assert (pace.runs, pace.per_s, pace.success, pace.of_s) == (240_000, 4_000.0, 1.0, 60.0)


def test_where_less_than_a_minute_is_kept_the_rate_is_that_of_what_is_kept() -> None:
    window = Window()
    for partition, seconds in ((0, 60), (1, 4)):
        ends = [
            record((60 - seconds) * 1_000 + n * 10, "agent.completed", "m", agent="a", code="ok")
            for n in range(seconds * 100)
        ]
        window.take(ends, partition)
    window.missed(1, START + 56_000_000)
    pace = window.paces(START + 60_000_000)["a"]
    assert (pace.runs, pace.per_s, pace.of_s) == (6_400, 200.0, 4.0)
    assert window.seconds(START + 60_000_000) == 4.0
    assert window.seconds(START + 90_000_000) == 34.0
    assert window.seconds(START + 900_000_000) == 60.0, "since then everything was read"


def test_what_says_a_moment_far_ahead_is_no_run_of_this_minute() -> None:
    window = Window()
    window.take([record(at_ms, "agent.completed", "m", agent="a", code="ok") for at_ms in (1_000, 600_000)])
    assert window.paces(START + 2_000_000)["a"].runs == 1
    assert window.paces(START + 600_000_000) == {}


def test_of_dropped_records_it_is_said_that_there_were_more() -> None:
    window = Window()
    window.take(
        [record(0, "gap", "", counts={"missing": 7}), record(30_000, "agent.completed", "m", agent="a", code="ok")]
    )
    assert window.paces(START + 40_000_000)["a"].at_least
    assert not window.paces(START + 61_000_000)["a"].at_least


def test_of_a_process_that_ended_without_a_word_nobody_knows_that_there_were_more() -> None:
    window = Window()
    lost = record(0, "gap", "", code="process.lost", counts={"processes": 1})
    odd = [record(0, "gap", "", counts=counts) for counts in ({"missing": 0}, {"missing": "7"}, [7], {})]
    window.take([lost, *odd, record(0, "agent.completed", "m", agent="a", code="ok")])
    assert not window.paces(START + 10_000_000)["a"].at_least


def test_the_table() -> None:
    busy = Line(agent="bank", state="busy", alive=2, instances=2, load=0.5, in_flight=2, inbox=7,
        pace=Pace(90, 1.5, 0.989, 12.4, 240.0))  # fmt: skip
    few = Line(agent="bank", state="busy", pace=Pace(90, 20.0, 1.0, 12.4, 240.0, of_s=4.5, at_least=True))
    table, *notes = table_of([few]).splitlines()[1:]
    assert table.split()[6:9] == [">=", "20.0", "100.0%"]
    assert "the last 4.5 s only (max_events)" in notes[0]
    assert "more runs than these" in notes[1]
    idle = Line(agent="desk", state="not_ready", reason="no key", instances=1)
    assert table_of([busy, idle]) == (
        "AGENT  STATE               INSTANCES  LOAD  IN FLIGHT  INBOX  PER S  SUCCESS  P50    P99\n"
        "bank   busy                2/2        50%   2          7      1.5    98.9%    12 ms  240 ms\n"
        "desk   not_ready (no key)  0/1        0%    0          0      0.0    -        -      -"
    )
