"""What the probes answer, without a socket."""

import json

import pytest

from reach.service import Vitals
from reach_worker.health import MAX_AGE_MS, Health, HealthServer, Tick
from tests.manual_clock import ManualClock


@pytest.fixture
def clock() -> ManualClock:
    clock = ManualClock()
    clock.advance(1_000)
    return clock


@pytest.fixture
def health(clock: ManualClock) -> Health:
    made = Health(clock)
    made.needed = frozenset({"router", "due"})
    return made


def running(health: Health, clock: ManualClock) -> None:
    now = clock.monotonic_ms()
    health.state = "running"
    health.vitals = {
        name: Vitals(started_at_ms=now, last_ok_at_ms=now, runs=1) for name in ("router", "due", "spans", Tick.name)
    }


def answer(health: Health, head: bytes) -> tuple[int, dict[str, object]]:
    response = HealthServer(health, "127.0.0.1", 0).answer(head)
    status, _, body = response.partition(b"\r\n\r\n")
    return int(status.split()[1]), json.loads(body) if body else {}


def test_starting_is_live_and_not_ready(health: Health) -> None:
    assert health.live()[0]
    assert health.ready() == (False, {"status": "starting"})


def test_progress_of_what_is_needed_makes_it_ready(health: Health, clock: ManualClock) -> None:
    running(health, clock)
    assert health.ready() == (True, {"status": "ready"})
    health.vitals["spans"].failures = 5
    assert health.ready()[0]


def test_a_failure_or_a_standstill_of_what_is_needed_makes_it_unready(health: Health, clock: ManualClock) -> None:
    running(health, clock)
    health.vitals["router"].failures, health.vitals["router"].last_error = 1, "backend.unavailable"
    assert health.ready() == (False, {"status": "not ready", "services": {"router": "backend.unavailable"}})
    health.vitals["router"].failures = 0
    clock.advance(MAX_AGE_MS + 1)
    health.vitals["due"].last_ok_at_ms = clock.monotonic_ms()
    good, told = health.ready()
    assert not good
    assert list(told["services"]) == ["router"]  # type: ignore[call-overload]


def test_a_needed_service_that_has_not_run_makes_it_unready(health: Health, clock: ManualClock) -> None:
    running(health, clock)
    health.vitals = {name: vitals for name, vitals in health.vitals.items() if name != "due"}
    assert health.ready()[1]["services"] == {"due": "has not run yet"}


def test_what_only_observes_makes_it_degraded_and_leaves_it_ready(health: Health, clock: ManualClock) -> None:
    running(health, clock)
    health.observers = frozenset({"spans"})
    assert health.ready() == (True, {"status": "ready"})
    health.vitals["spans"].failures, health.vitals["spans"].last_error = 3, "otlp.unavailable"
    assert health.ready() == (True, {"status": "degraded", "degraded": {"spans": "otlp.unavailable"}})
    health.vitals["router"].failures, health.vitals["router"].last_error = 1, "backend.unavailable"
    assert health.ready() == (
        False,
        {
            "status": "not ready",
            "services": {"router": "backend.unavailable"},
            "degraded": {"spans": "otlp.unavailable"},
        },
    )


def test_who_does_nothing_but_observe_is_not_ready_without_it(health: Health, clock: ManualClock) -> None:
    running(health, clock)
    health.needed = health.observers = frozenset({"spans"})
    health.vitals["spans"].failures, health.vitals["spans"].last_error = 1, "otlp.unavailable"
    assert health.ready() == (False, {"status": "not ready", "services": {"spans": "otlp.unavailable"}})


def test_draining_is_not_ready_and_a_loop_that_stands_still_is_not_live(health: Health, clock: ManualClock) -> None:
    running(health, clock)
    health.state = "draining"
    assert health.ready() == (False, {"status": "draining"})
    assert health.live()[0]
    clock.advance(MAX_AGE_MS + 1)
    assert health.live()[0] is False


@pytest.mark.parametrize(
    ("head", "status"),
    [
        (b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n", 200),
        (b"GET /healthz HTTP/1.1\r\n\r\n", 200),
        (b"GET /readyz?verbose HTTP/1.0\r\n\r\n", 503),
        (b"HEAD /livez HTTP/1.1\r\n\r\n", 200),
        (b"POST /livez HTTP/1.1\r\n\r\n", 405),
        (b"GET / HTTP/1.1\r\n\r\n", 404),
        (b"GET /../livez HTTP/1.1\r\n\r\n", 404),
        (b"\xff\xfe\r\n\r\n", 405),
        (b"\r\n\r\n", 405),
    ],
)
def test_requests(health: Health, head: bytes, status: int) -> None:
    assert answer(health, head)[0] == status
