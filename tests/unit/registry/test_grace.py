"""A silence that a hold-up explains proves nothing; a machine that is always late must still see the dead."""

from reach.registry.grace import Grace

T = 10_000_000


def fed(*looks: tuple[int, int]) -> Grace:
    grace = Grace(1_000)
    for now_ms, monotonic_ms in looks:
        grace.look(now_ms, monotonic_ms)
    return grace


def test_looks_in_time_give_no_grace() -> None:
    grace = fed((T, 0), (T + 1_000, 1_000), (T + 5_000, 5_000))
    assert (grace.floor_ms, grace.runs(T + 5_000)) == (0, False)


def test_a_late_look_gives_15_s_in_which_the_living_stay_alive() -> None:
    grace = fed((T, 0), (T + 4_001, 4_001))
    assert grace.floor_ms == T - 15_000
    assert grace.runs(T + 19_000)
    assert not grace.runs(T + 19_001)
    grace.look(T + 5_001, 5_001)
    assert grace.floor_ms == T - 15_000, "while it runs"
    for after in range(6_001, 20_002, 1_000):
        grace.look(T + after, after)
    assert grace.floor_ms == 0


def test_the_clock_of_the_backend_alone_shows_it_as_well() -> None:
    assert fed((T, 0), (T + 60_000, 1_000)).runs(T + 60_000)
    assert fed((T, 0), (T + 1_000, 60_000)).runs(T + 1_000)


def test_a_step_back_is_told_and_gives_grace() -> None:
    grace = Grace(1_000)
    assert not grace.look(T, 0)
    assert not grace.look(T - 1_000, 1_000)
    assert grace.look(T - 60_000, 2_000)
    assert grace.floor_ms == T - 75_000
    assert grace.runs(T - 60_000)


def test_a_machine_that_is_always_a_little_late_gets_one_grace_in_30_s() -> None:
    grace, now = fed((T, 0)), 0
    graced = []
    for _ in range(12):
        now += 4_500
        grace.look(T + now, now)
        graced.append(grace.runs(T + now))
    assert graced[:4] == [True, True, True, True]
    assert graced[4:7] == [False, False, False]
    assert graced[7]


def test_a_long_hold_up_gives_grace_at_once_again_and_keeps_the_floor() -> None:
    grace = fed((T, 0), (T + 5_000, 5_000), (T + 12_000, 12_000))
    assert grace.floor_ms == T - 15_000
    assert grace.until_ms == T + 27_000
