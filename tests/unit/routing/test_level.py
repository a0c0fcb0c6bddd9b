"""How full an agent is between two beats."""

import pytest

from reach.routing.agents import History
from reach.routing.strategies import level as level_module
from reach.routing.strategies.level import Level


def beat(at_ms: int, inflight: float, slots: int = 4) -> History:
    return History(at_ms, at_ms, slots, inflight, inflight >= slots, None, None)


def test_what_runs_ends_at_the_pace_of_the_answers() -> None:
    one = Level()
    one.hear(beat(1_000, 2), 1_000)
    assert one.drain(1_000) == 2
    assert one.drain(2_000) == pytest.approx(2 / 2.718281828)
    assert one.drain(60_000) == pytest.approx(0, abs=1e-9)


def test_each_send_adds_one() -> None:
    one = Level()
    one.hear(beat(1_000, 0), 1_000_000)
    for at_ms in (1_000, 1_001, 1_002):
        one.send(at_ms)
    assert one.drain(1_002) == pytest.approx(3, abs=0.01)


def test_what_waits_is_worked_off_by_all_slots() -> None:
    one = Level()
    one.hear(beat(1_000, 4), 1_000)
    for _ in range(8):
        one.send(1_000)
    assert one.drain(1_000) == 12
    assert one.drain(2_000) == 8
    assert one.drain(3_000) == 4
    assert one.drain(4_000) == pytest.approx(4 / 2.718281828)


def test_a_beat_with_a_free_slot_knows_better() -> None:
    one = Level()
    one.hear(beat(1_000, 4), 100_000)
    for _ in range(8):
        one.send(1_000)
    one.hear(beat(6_000, 1), 100_000)
    assert one.drain(6_000) == 1


def test_a_beat_of_a_full_agent_forgets_nothing_that_waits() -> None:
    one = Level()
    one.hear(beat(1_000, 4), 100_000)
    for _ in range(8):
        one.send(1_000)
    one.hear(beat(2_000, 4), 100_000)
    assert one.drain(2_000) == pytest.approx(12, abs=0.1)


def test_what_was_sent_after_a_beat_was_made_counts_although_it_is_heard_later() -> None:
    one = Level()
    one.hear(beat(1_000, 0), 100_000)
    one.send(2_000)
    one.send(3_500)
    one.hear(beat(3_000, 1), 100_000)
    assert one.drain(3_500) == pytest.approx(2, abs=0.02)


def test_an_older_beat_and_an_earlier_moment_change_nothing() -> None:
    one = Level()
    one.hear(beat(5_000, 2), 1_000)
    one.hear(beat(4_000, 4), 1_000)
    assert one.drain(4_500) == 2


def test_only_so_many_sends_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    one = Level()
    one.hear(beat(1_000, 0), 100_000_000)
    for at_ms in (1_000, 2_000, 2_000 + level_module.LATE_MS + 1):
        one.send(at_ms)
    one.hear(beat(1_001, 0), 100_000_000)  # heard very late: the sends before are told by nobody any more
    assert one.drain(2_001 + level_module.LATE_MS) == pytest.approx(1, abs=0.01)


def test_an_agent_without_slots_or_times_divides_by_nothing() -> None:
    one = Level()
    one.hear(beat(1_000, 0, slots=0), 0)
    one.send(1_000)
    one.send(1_000)
    assert 0 <= one.drain(2_000) < 0.01


def test_what_was_counted_is_what_it_has() -> None:
    one = Level()
    one.hear(beat(1_000, 0), 1_000)
    one.send(1_100)
    one.count(0, 7, 1_100)
    assert one.drain(1_100) == 7
    one.count(0, 2, 1_200)
    assert one.drain(1_200) == 2


def test_a_beat_of_before_the_count_changes_nothing_and_a_later_one_knows_better() -> None:
    one = Level()
    one.count(0, 3, 2_000)
    one.hear(beat(1_500, 0), 1_000_000)
    assert one.drain(2_000) == 3
    one.hear(beat(2_500, 1), 1_000_000)
    assert one.drain(2_500) == 1


def test_what_lies_in_other_partitions_stays() -> None:
    one = Level()
    one.hear(beat(1_000, 0), 1_000_000_000)
    one.count(0, 3, 1_000)
    one.count(1, 2, 1_000)
    assert one.drain(1_000) == 5
    one.count(0, 1, 1_000)
    assert one.drain(1_000) == 3
    one.count(1, 0, 1_000)
    assert one.drain(1_000) == 1


def test_what_lies_in_other_partitions_is_worked_off_meanwhile() -> None:
    one = Level()
    one.hear(beat(1_000, 0, slots=1), 1_000)
    one.count(0, 5, 1_000)
    one.count(1, 5, 1_000)
    one.count(0, 1, 6_000)  # five were done since, as well in the other
    assert one.drain(6_000) == pytest.approx(3.5)
