"""What is counted of hop records, and how it is read."""

import pytest

from reach.tracing.hops import HopRecorder
from reach.tracing.metrics import BOUNDS, METRICS, OTHER, known_code
from reach.tracing.readings import Reading, Readings
from reach.tracing.tally import Durations, Tally
from reach.tracing.time_base import TimeBase

MSG = "a3f2c1e4-9b8d-4f3a-8c2e-1a2b3c4d5e6f"
TRACED = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def tally() -> Tally:
    return Tally(lambda: 5.0)


def numbers(readings: Readings) -> dict[str, dict[tuple[str, ...], float]]:
    return {metric.name: dict(values) for metric, values in readings.numbers()}


@pytest.mark.parametrize(
    ("point", "metric", "label"),
    [
        ("route.sent", "reach_route_success_total", ""),
        ("route.failed", "reach_route_fail_total", "agent.lost"),
        ("message.rejected", "reach_route_fail_total", "agent.lost"),
        ("message.retried", "reach_retries_total", "agent.lost"),
        ("message.reclaimed", "reach_reclaims_total", "agent.lost"),
        ("message.moved", "reach_moves_total", ""),
        ("message.expired", "reach_expired_total", "agent.lost"),
        ("message.cancelled", "reach_cancelled_total", ""),
        ("message.dead", "reach_dead_letters_total", "agent.lost"),
    ],
)
def test_each_point_feeds_its_counter(point: str, metric: str, label: str) -> None:
    counted = tally()
    counted.hop(point, MSG, None, {"code": "agent.lost"})
    counted.hop(point, MSG, None, {"code": "agent.lost"})
    assert dict(counted.counts) == {(metric, label): 2}


def test_other_points_feed_none() -> None:
    counted = tally()
    for point in ("message.received", "route.matched", "agent.received", "gap", "a.later.one"):
        counted.hop(point, MSG, None, {})
    assert not counted.counts


def test_a_code_that_somebody_has_made_up_is_no_label() -> None:
    counted = tally()
    counted.hop("message.dead", MSG, None, {"code": "my-own-42"})
    assert dict(counted.counts) == {("reach_dead_letters_total", OTHER): 1}
    assert (known_code("ok"), known_code(""), known_code("route.not_found")) == ("ok", "ok", "route.not_found")


def test_runs_are_counted_where_the_agent_lives() -> None:
    counted = tally()
    counted.agents.add("here")
    for agent in ("here", "there"):
        counted.hop("agent.completed", MSG, None, {"agent": agent, "code": "ok", "duration_us": 20_000})
    assert dict(counted.runs) == {("here", "ok"): 1}
    assert (counted.processing.count, counted.processing.sum) == (1, 0.02)


async def test_what_finds_no_room_among_the_records_is_counted_all_the_same() -> None:
    async def nowhere(partition: int, batch: bytes) -> None:
        """Never called."""

    hops = HopRecorder(nowhere, TimeBase(lambda: 0), max_records=1)
    for _ in range(3):
        hops.add(0, "route.sent", MSG)
    assert (len(hops), hops.dropped, hops.tally.counts["reach_route_success_total", ""]) == (1, 2, 3)


@pytest.mark.parametrize(
    ("seconds", "bucket"),
    [(-1.0, 0), (0.0, 0), (0.001, 0), (0.0011, 1), (10.0, 12), (10.001, 13), (60.0, 14), (61.0, 15)],
)
def test_a_duration_falls_into_the_bucket_that_its_bound_ends(seconds: float, bucket: int) -> None:
    durations = Durations(lambda: 7.0)
    durations.observe(seconds, MSG, TRACED)
    assert [at for at, count in enumerate(durations.counts) if count] == [bucket]
    example = durations.examples[bucket]
    assert example is not None
    assert (example.trace_id, example.at_s) == ("0af7651916cd43dd8448eb211c80319c", 7.0)
    assert len(durations.counts) == len(BOUNDS) + 1


def test_several_tallies_and_sources_are_added_up() -> None:
    readings, first, second = Readings(), tally(), tally()
    readings.count(first)
    readings.count(second)
    readings.add(lambda: [Reading("reach_agent_running", 2, ("a",)), Reading("reach_agent_running", 3, ("b",))])
    first.count("reach_messages_in_total")
    second.count("reach_messages_in_total", by=4)
    second.runs["a", "ok"] += 1
    assert numbers(readings) == {
        "reach_messages_in_total": {(): 5},
        "reach_runs_total": {("a", "ok"): 1},
        "reach_agent_running": {("a",): 2, ("b",): 3},
        "reach_events_dropped_total": {(): 0},
    }


def test_what_a_process_counts_begins_with_0_and_what_it_does_not_is_left_out() -> None:
    readings = Readings()
    readings.count(tally())
    assert "reach_messages_in_total" not in numbers(readings)
    assert [metric.name for metric, _ in readings.durations()] == []
    readings.plays("router")
    found = numbers(readings)
    assert found["reach_messages_in_total"] == {(): 0}
    assert found["reach_retries_total"] == {("handler.error",): 0, ("agent.lost",): 0}
    assert [metric.name for metric, _ in readings.durations()] == ["reach_delivery_duration_seconds"]


def test_the_list_is_sound() -> None:
    names = [one.name for one in METRICS]
    assert len(names) == len(set(names))
    for one in METRICS:
        assert one.name.startswith("reach_")
        assert one.name.endswith("_total") == (one.kind == "counter"), one.name
        assert not one.name.endswith("_count")
        assert one.help.endswith(".")
        assert not set(one.labels) & {"msg_id", "correlation_id", "trace_id", "instance", "job", "le"}
        assert not one.begins or len(one.labels) == 1
