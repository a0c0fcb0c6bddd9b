"""Every error says what, which, and whether to try again."""

import inspect

import pytest

from reach import errors
from reach.envelope.codes import TABLE
from reach.errors import ReachError, error_for


def test_every_error_has_a_code_and_says_whether_to_try_again() -> None:
    kinds = [kind for _, kind in inspect.getmembers(errors, inspect.isclass) if issubclass(kind, ReachError)]
    assert len(kinds) > 10
    for kind in kinds:
        error = kind("envelope.malformed") if kind is errors.EnvelopeError else kind("what happened")
        assert error.code
        assert error.retryable is kind.default_retryable
        assert str(error).startswith(error.code)


def test_fields() -> None:
    error = errors.Overloaded("inbox full", details={"agent": "a"}, retry_after_ms=50)
    assert (error.code, error.details, error.retryable, error.retry_after_ms) == (
        "overloaded",
        {"agent": "a"},
        True,
        50,
    )
    assert str(error) == "overloaded: inbox full"
    assert str(errors.Timeout()) == "timeout.total"
    assert errors.Timeout(retryable=False).retryable is False


@pytest.mark.parametrize("line", [line for line in TABLE if line.code != "ok"], ids=lambda line: line.code)
def test_error_for_every_code(line: object) -> None:
    code, retryable = line.code, line.retryable  # type: ignore[attr-defined]
    error = error_for(code, "why", retryable=retryable, retry_after_ms=5)
    assert (error.code, error.message, error.retryable, error.retry_after_ms) == (code, "why", retryable, 5)
    assert type(error) is not ReachError


def test_an_unknown_code_is_rejected_or_failed() -> None:
    assert type(error_for("own")) is errors.Rejected
    assert type(error_for("own", retryable=True)) is errors.HandlerFailed
