"""The rules of retrying."""

import pytest

from reach.delivery.retry import backoff_ms, code_of, retry_of
from reach.envelope.codes import TABLE
from reach.envelope.ledger import Best, Leg, LegState
from reach.routing.steps import AT_ONCE, Comeback

NOW, TOTAL = 1_000_000, 1_030_000


def returned(code: str = "handler.error", attempt: int = 1, **fields: object) -> Leg:
    core = f'{{"status":"retryable","code":"{code}","output":[1,2]}}' if code else ""
    return Leg(state=LegState.RETURNED, attempt=attempt, core=core, **fields)  # type: ignore[arg-type]


def judged(leg: Leg, *, max_attempts: int = 6, total_at_ms: int = TOTAL, jitter: float = 1.0) -> Comeback:
    return retry_of(leg, max_attempts=max_attempts, total_at_ms=total_at_ms, now_ms=NOW, jitter=jitter)


@pytest.mark.parametrize(("attempt", "wait"), [(0, 1), (1, 1), (2, 2), (3, 4), (4, 8), (5, 16), (6, 16), (99, 16)])
def test_the_wait_doubles_up_to_16_s(attempt: int, wait: int) -> None:
    assert backoff_ms(attempt, 1.0) == wait * 1_000


def test_jitter_spreads_it() -> None:
    assert (backoff_ms(1, 0.8), backoff_ms(1, 1.2)) == (800, 1_200)
    assert judged(returned(attempt=2), jitter=1.1) == Comeback(2_200)


@pytest.mark.parametrize("line", [line for line in TABLE if line.retryable], ids=lambda line: line.code)
def test_only_what_the_table_retries_goes_again(line: object) -> None:
    found = judged(returned(line.code))  # type: ignore[attr-defined]
    assert found.ends is not line.retried_inside  # type: ignore[attr-defined]
    assert not found.dead


def test_a_better_answer_is_asked_for_at_once_while_runs_are_left() -> None:
    guess = Best(0.4, "ok", "{}", "{}", "a", "a.1", 5)
    assert judged(returned("ok", best=guess)) == AT_ONCE
    assert judged(returned("ok", attempt=6, best=guess)) == Comeback(ends=True)


def test_a_retryable_answer_with_a_code_of_the_agents_own_goes_again() -> None:
    assert judged(returned("llm.rate_limited")) == Comeback(1_000)


def test_a_failed_probe_and_a_holder_that_had_begun_nothing_are_replaced_at_once() -> None:
    assert judged(returned("probe.failed")) == judged(returned("agent.lost", attempt=0)) == AT_ONCE


def test_what_died_together_comes_back_apart_and_within_a_second() -> None:
    """However often it has died: a takeover takes 17 s and no longer."""
    for attempt in (1, 5):
        waits = [judged(returned("agent.lost", attempt), jitter=jitter) for jitter in (0.8, 0.9, 1.0, 1.2)]
        assert waits == [AT_ONCE, Comeback(250), Comeback(500), Comeback(1_000)]


def test_what_did_not_fit_goes_to_somebody_else_at_once() -> None:
    assert judged(returned("context.exceeded")) == Comeback(elsewhere=True)


def test_a_free_return_goes_at_once() -> None:
    assert judged(returned("", attempt=0)) == AT_ONCE


def test_the_agent_s_own_wait_counts_and_knows_no_jitter() -> None:
    assert judged(returned("handler.retry", attempt=0, wait_ms=7_000), jitter=1.2) == Comeback(7_000)


@pytest.mark.parametrize(
    ("returns", "asked_ms", "wait_ms"),
    [(1, 0, 100), (1, 99, 100), (1, 101, 101), (10, 0, 100), (11, 0, 1_000), (11, 1_001, 1_001), (1_000_000, 0, 1_000)],
)
def test_who_asks_again_and_again_is_called_at_a_bounded_pace(returns: int, asked_ms: int, wait_ms: int) -> None:
    leg = returned("handler.retry", attempt=0, wait_ms=asked_ms, returns=returns)
    assert judged(leg, jitter=0.8) == Comeback(wait_ms)


@pytest.mark.parametrize("code", ["agent.lost", "probe.failed"])
def test_what_is_handed_back_goes_on_at_once_but_not_for_ever(code: str) -> None:
    waits = [judged(returned(code, attempt=0, wait_ms=0, returns=n)).wait_ms for n in (1, 2, 3, 4, 10, 11, 500)]
    assert waits == [0, 0, 0, 100, 100, 1_000, 1_000]


@pytest.mark.parametrize("code", ["handler.error", "agent.lost", "timeout.processing"])
def test_when_attempts_are_out_it_is_a_dead_letter(code: str) -> None:
    assert judged(returned(code, attempt=3), max_attempts=3) == Comeback(ends=True, dead=True)
    assert not judged(returned(code, attempt=2), max_attempts=3).ends


def test_a_retry_that_cannot_start_before_total_ends_at_once() -> None:
    assert judged(returned(), total_at_ms=NOW + 1_001) == Comeback(1_000)
    assert judged(returned(), total_at_ms=NOW + 1_000) == Comeback(ends=True, dead=True, late=True)
    waits_too_long = judged(returned("handler.retry", attempt=0, wait_ms=60_000))
    assert waits_too_long == Comeback(ends=True, dead=True, late=True)  # its run burnt nothing, and was a run
    handed_back = judged(returned("agent.lost", attempt=0, wait_ms=0), total_at_ms=NOW)
    assert handed_back == Comeback(ends=True, dead=False, late=True)


def test_the_default_total_has_room_for_four_retries() -> None:
    now, attempt = 0, 1
    while not (
        found := retry_of(returned(attempt=attempt), max_attempts=6, total_at_ms=30_000, now_ms=now, jitter=1)
    ).ends:
        now, attempt = now + found.wait_ms, attempt + 1
    assert (attempt - 1, now) == (4, 15_000)


def test_the_code_of_a_leg() -> None:
    assert code_of(returned("x.y")) == "x.y"
    assert code_of(Leg(state=LegState.RETURNED)) == ""
