"""The moments of a message."""

import pytest

from reach.delivery.deadlines import Moments, moments, tomb_ms, window_ms


def test_moments_count_from_the_ingress_id() -> None:
    assert moments("1000-7", 1_500, ttl_ms=10, total_ms=300) == Moments(1_000, 1_000, 1_010, 1_300)


def test_an_id_ahead_of_the_clock_is_never_later_than_now() -> None:
    assert moments("61500-0", 1_500, ttl_ms=1, total_ms=2).accepted_at_ms == 1_500
    assert moments("99000000000000-0", 1_500, ttl_ms=1, total_ms=2).accepted_at_ms == 1_500


def test_everything_but_acceptance_waits_for_not_before() -> None:
    assert moments("1000-0", 1_500, ttl_ms=10, total_ms=300, not_before_ms=5_000) == Moments(1_000, 5_000, 5_010, 5_300)
    assert moments("1000-0", 1_500, ttl_ms=10, total_ms=300, not_before_ms=500).start_at_ms == 1_000


@pytest.mark.parametrize(
    ("total", "window"), [(1, 60_000), (30_000, 60_000), (40_000, 80_000), (300_000, 600_000), (10**9, 600_000)]
)
def test_the_window_is_twice_total_within_bounds(total: int, window: int) -> None:
    assert window_ms(total) == window


def test_a_tombstone_outlives_total() -> None:
    assert tomb_ms(1) == 60_000
    assert tomb_ms(90_000) == 90_000
