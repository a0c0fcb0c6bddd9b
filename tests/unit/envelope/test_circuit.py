"""The rules of a circuit, without a backend: rows and moments in, rows out."""

import pytest

from reach.envelope.circuit import (
    DEATH_MS,
    IN_A_ROW,
    OPEN_MS,
    SLOT_MS,
    TRANSITIONS,
    Event,
    OpenCircuit,
    Row,
    State,
    counted,
    decode_circuit,
    probe_of,
    row_of,
    run_of,
    speaks_for,
)
from reach.errors import RecordError

NOW = 1_700_000_000_000
SLOT = NOW // SLOT_MS
RUN = probe_of("m", 0, "1-1")


def after(row: Row, *goods: bool, now_ms: int = NOW) -> Row:
    for good in goods:
        found = counted(row, RUN, now_ms, good=good)
        assert found is not None
        row = found
    return row


def test_a_row_is_read_as_it_is_written() -> None:
    row = Row(3, NOW, NOW - 1, RUN, {SLOT - 1: (2, 1), SLOT: (0, 3)})
    assert row.text() == f"3 {NOW} {NOW - 1} m/0/1-1 {SLOT - 1}:2:1,{SLOT}:0:3".encode()
    assert row_of(row.text(), NOW) == row
    assert row_of(Row().text(), NOW) == Row()
    assert run_of(RUN) == ("m", 0, "1-1")


@pytest.mark.parametrize(
    "junk", [None, b"", b"x", b"1 2 3 -", b"1 2 3 - - ", b"-1 2 3 - -", b"1\n2 3 - -", b"1 2 3 - -\n"]
)
def test_what_lies_there_by_accident_is_a_closed_circuit(junk: bytes | None) -> None:
    assert row_of(junk, NOW) == Row()


def test_slots_of_before_and_of_the_future_do_not_count() -> None:
    slots = b",".join(b"%d:1:1" % (SLOT + by) for by in (-6, -5, 0, 1))
    assert row_of(b"0 0 0 - " + slots + b",junk,1:2", NOW).slots == {SLOT - 5: (1, 1), SLOT: (1, 1)}


def test_numbers_that_no_double_holds_are_none() -> None:
    assert row_of(b"1234567890123456 1 1234567890123456 - -", NOW) == Row(opened_at_ms=1)


@pytest.mark.parametrize("junk", ["-", "a", "a/b", "a/b/c", "a/1/", "/1/2", f"a/{'9' * 16}/1-1"])
def test_a_probe_that_names_no_run(junk: str) -> None:
    assert run_of(junk) is None


def test_the_fifth_failure_in_a_row_opens_it() -> None:
    row = after(Row(), *[False] * (IN_A_ROW - 1))
    assert row.state(NOW) == "closed"
    assert after(row, True).run == 0
    opened = after(row, False)
    assert (opened.state(NOW), opened.state(NOW + OPEN_MS - 1), opened.state(NOW + OPEN_MS)) == (
        "open",
        "open",
        "half_open",
    )
    assert opened.state(NOW - 1) == "half_open"  # the clock has stepped back
    assert opened.why == "5 failures in a row"


def test_more_than_half_of_twenty_open_it() -> None:
    row = after(Row(), *[True, False] * 10)
    assert row.state(NOW) == "closed"
    opened = after(row, False)
    assert (opened.state(NOW), opened.why) == ("open", "more than half of its runs failed")
    assert after(Row(), *[False, False, True] * 6).state(NOW) == "closed"  # 12 of 18 are too few


def test_a_death_counts_once() -> None:
    first = counted(Row(), RUN, NOW, good=False, death=True)
    assert first is not None
    assert (first.run, first.died_at_ms) == (1, NOW)
    assert counted(first, RUN, NOW + DEATH_MS - 1, good=False, death=True) == first
    later = counted(first, RUN, NOW + DEATH_MS, good=False, death=True)
    assert later is not None
    assert later.run == 2
    back = counted(first, RUN, NOW - 1, good=False, death=True)  # the clock has stepped back
    assert back is not None
    assert (back.run, back.died_at_ms) == (1, NOW - 1)
    among = counted(first, RUN, NOW, good=False)
    assert among is not None
    assert among.run == 2


def test_what_has_failed_before_is_no_news_but_of_a_probe() -> None:
    row = after(Row(), False)
    assert counted(row, RUN, NOW, good=False, before=True) is row
    assert counted(row, RUN, NOW, good=True, before=True) == Row(0, slots={SLOT: (1, 1)})
    again = counted(Row(5, NOW, 0, RUN), RUN, NOW + OPEN_MS, good=False, before=True)
    assert again is not None
    assert again.state(NOW + OPEN_MS) == "open"


MADE: dict[Event, tuple[str, bool]] = {"probe good": (RUN, True), "probe bad": (RUN, False)}


@pytest.mark.parametrize(("state", "event"), sorted(TRANSITIONS))
def test_each_transition_of_the_table(state: State, event: Event) -> None:
    moment_ms = {"closed": NOW, "open": NOW, "half_open": NOW + OPEN_MS}[state]
    row = after(Row(), *[False] * (IN_A_ROW - 1)) if state == "closed" else Row(5, NOW, 0, RUN)
    assert row.state(moment_ms) == state
    if event == "waited":
        assert row.state(NOW + OPEN_MS) == TRANSITIONS[state, event]
        return
    run, good = MADE.get(event, (RUN, False))
    ended = counted(row, run, moment_ms, good=good)
    assert (ended.state(moment_ms) if ended is not None else "closed") == TRANSITIONS[state, event]


@pytest.mark.parametrize("good", [True, False])
@pytest.mark.parametrize("now_ms", [NOW, NOW + OPEN_MS])
def test_while_it_is_not_closed_only_the_probe_counts(good: bool, now_ms: int) -> None:
    row = Row(5, NOW, 0, RUN)
    assert counted(row, probe_of("m", 0, "1-2"), now_ms, good=good) is row
    assert counted(Row(5, NOW), RUN, now_ms, good=good) == Row(5, NOW)


@pytest.mark.parametrize(
    ("status", "code", "wait_ms", "hung", "said"),
    [
        ("success", "ok", -1, False, True),
        ("failed", "handler.rejected", -1, False, True),
        ("retryable", "handler.error", -1, False, False),
        ("retryable", "handler.retry", -1, False, False),
        ("retryable", "handler.retry", 0, False, True),
        ("retryable", "context.exceeded", -1, False, True),
        ("retryable", "agent.lost", 0, False, None),
        ("retryable", "handler.error", 0, False, None),
        ("retryable", "timeout.total", -1, False, None),
        ("retryable", "timeout.total", -1, True, False),
        ("retryable", "timeout.processing", -1, False, None),
        ("retryable", "timeout.processing", -1, True, False),
    ],
)
def test_what_an_answer_says(status: str, code: str, wait_ms: int, hung: bool, said: bool | None) -> None:
    assert speaks_for(status, code, wait_ms, hung=hung) is said


def test_what_is_told_can_be_read() -> None:
    assert decode_circuit(Row(5, NOW).told) == OpenCircuit(NOW + OPEN_MS, "5 failures in a row")
    with pytest.raises(RecordError):
        decode_circuit(b'{"until_ms":"soon"}')
