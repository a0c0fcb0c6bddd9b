"""A provider says when it wants to be asked again: the message waits for it and burns nothing, whatever client the handler uses.

The exceptions here have the shape that each library documents; none of them is needed.
"""

import email.message
import itertools
import json
import urllib.error
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from reach import Context, Retry
from reach.sdk.outcome import raised
from reach.sdk.retry_after import Told, told_by
from reach.testing import TestReach
from tests.unit.sdk.shops import agent_with, ended

NOW_MS = 1_700_000_000_000  # Tue, 14 Nov 2023 22:13:20 GMT
WEEK_MS = 7 * 24 * 3600 * 1000


class AnyCase(dict[str, str]):
    """Headers that are asked for in any case: httpx.Headers, requests' CaseInsensitiveDict, aiohttp's CIMultiDict."""

    def get(self, key: str, default: Any = None) -> Any:
        return next((value for name, value in self.items() if name.lower() == key.lower()), default)


class Response:
    def __init__(self, status_code: int, headers: Mapping[str, Any]) -> None:
        self.status_code = status_code
        self.headers = headers


class HTTPStatusError(Exception):
    """httpx: request and response."""

    def __init__(self, message: str, *, response: Response) -> None:
        super().__init__(message)
        self.response = response


class HTTPError(IOError):
    """requests: its response may be None."""

    def __init__(self, *args: Any, response: Response | None = None) -> None:
        super().__init__(*args)
        self.response = response


class RateLimitError(Exception):
    """openai and anthropic: APIStatusError with response, status_code, body."""

    def __init__(self, message: str, *, response: Response, body: object) -> None:
        super().__init__(message)
        self.response, self.status_code, self.body = response, response.status_code, body


class ClientResponseError(Exception):
    """aiohttp: status and headers of its own."""

    def __init__(self, *, status: int, headers: Mapping[str, str]) -> None:
        super().__init__("too many")
        self.status, self.headers = status, headers


def of_urllib(status: int, headers: Mapping[str, str]) -> Exception:
    told = email.message.Message()
    for name, value in headers.items():
        told[name] = value
    return urllib.error.HTTPError("https://example.org", status, "slow down", told, None)


MAKERS: dict[str, Callable[[int, Mapping[str, str]], Exception]] = {
    "httpx": lambda status, headers: HTTPStatusError("429", response=Response(status, AnyCase(headers))),
    "requests": lambda status, headers: HTTPError("429", response=Response(status, AnyCase(headers))),
    "openai, anthropic": lambda status, headers: RateLimitError(
        "429", response=Response(status, AnyCase(headers)), body=None
    ),
    "aiohttp": lambda status, headers: ClientResponseError(status=status, headers=AnyCase(headers)),
    "urllib": of_urllib,
    "plain dict": lambda status, headers: HTTPStatusError("429", response=Response(status, headers)),
}
by_every_client = pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)


@by_every_client
@pytest.mark.parametrize("status", [429, 503, 529])
def test_seconds(make: Any, status: int) -> None:
    assert told_by(make(status, {"Retry-After": "7"}), NOW_MS) == Told(status, 7_000)
    assert told_by(make(status, {"retry-after": " 1.5 "}), NOW_MS) == Told(status, 1_500)
    assert told_by(make(status, {"Retry-After": "0"}), NOW_MS) == Told(status, 0)


@by_every_client
def test_a_date_counts_from_the_answers_own_date_and_else_from_now(make: Any) -> None:
    at = "Tue, 14 Nov 2023 22:13:50 GMT"
    assert told_by(make(429, {"Retry-After": at}), NOW_MS) == Told(429, 30_000)
    dated = {"Retry-After": at, "Date": "Tue, 14 Nov 2023 22:13:48 GMT"}
    assert told_by(make(429, dated), NOW_MS) == Told(429, 2_000)  # whatever our own clock says
    assert told_by(make(429, {"Retry-After": "Tue, 14 Nov 2023 21:00:00 GMT"}), NOW_MS) == Told(429, 0)


def test_what_is_said_in_ms_is_the_finer_answer() -> None:
    assert told_by(MAKERS["httpx"](429, {"retry-after-ms": "250", "retry-after": "1"}), NOW_MS) == Told(429, 250)


@pytest.mark.parametrize(
    "text", ["1e9", "inf", "nan", "-1", "soon", "", "0x10", "\uff19", "1" * 400, "1.2.3", "Tue, 99 Nov"]
)
def test_what_is_no_wait_is_none(text: str) -> None:
    assert told_by(MAKERS["httpx"](429, {"Retry-After": text}), NOW_MS) == Told(429, None)


@pytest.mark.parametrize("text", ["99999999999", "Fri, 31 Dec 9999 23:59:59 GMT"])
def test_a_wait_is_bounded_by_seven_days(text: str) -> None:
    assert told_by(MAKERS["httpx"](429, {"Retry-After": text}), NOW_MS) == Told(429, WEEK_MS)


@pytest.mark.parametrize("status", [200, 301, 400, 404, 408, 500, 502, 504])
def test_other_statuses_say_nothing_of_when(status: int) -> None:
    assert told_by(MAKERS["httpx"](status, {"Retry-After": "7"}), NOW_MS) == Told(status, None)


class Hostile(Exception):
    @property
    def response(self) -> Any:
        raise RuntimeError("no")


class Odd(Exception):
    """Has attributes of these names that are something else."""

    response = "a text"
    code = 429
    headers = 5


@pytest.mark.parametrize(
    "error", [ValueError("x"), HTTPError("x"), Hostile(), Odd(), of_urllib(9_000, {"Retry-After": "1"})]
)
def test_an_exception_without_an_http_answer_says_nothing(error: Exception) -> None:
    assert told_by(error, NOW_MS) == Told()


def test_it_is_told_in_the_receipt() -> None:
    answer, wait_ms = raised(MAKERS["httpx"](429, {"Retry-After": "7"}), host="h", now_ms=NOW_MS)
    said = json.loads(answer.core)
    assert (said["status"], said["code"], said["retry_after_ms"], wait_ms) == (
        "retryable",
        "handler.retry",
        7_000,
        7_000,
    )
    assert json.loads(answer.details) == {"error": "HTTPStatusError", "http_status": 429}


def test_without_a_wait_it_is_an_ordinary_failure_that_names_the_status() -> None:
    answer, wait_ms = raised(MAKERS["httpx"](503, {}), host="h", now_ms=NOW_MS)
    assert (answer.code, wait_ms) == ("handler.error", -1)
    assert json.loads(answer.details) == {"error": "HTTPStatusError", "http_status": 503}


# ---------------------------------------------------------------- on the whole way


@pytest.mark.parametrize("threaded", [False, True])
async def test_a_busy_provider_costs_no_attempt_and_is_asked_when_it_said(threaded: bool) -> None:
    seen: list[int] = []
    async with TestReach() as bus:

        def ask(ctx: Context) -> int:
            seen.append(bus.clock.monotonic_ms())
            if len(seen) < 4:
                raise MAKERS["openai, anthropic"](429, {"retry-after": "5"})
            return ctx.attempt

        async def ask_here(ctx: Context) -> int:
            return ask(ctx)

        await bus.start(agent_with(ask if threaded else ask_here))
        receipt = await ended(bus, 20, max_attempts=1)
        assert (receipt.output, receipt.attempts) == (1, 1)
        assert [later - earlier >= 5_000 for earlier, later in itertools.pairwise(seen)] == [True] * 3
        assert seen[-1] - seen[0] < 16_000


async def test_a_wait_beyond_total_ends_it_at_once_and_says_so() -> None:
    async def ask() -> None:
        raise MAKERS["httpx"](429, {"Retry-After": "60"})

    async with TestReach(agent_with(ask)) as bus:
        receipt = await ended(bus, 1)
        assert (receipt.status, receipt.code, receipt.retry_after_ms) == ("retryable", "handler.retry", 60_000)
        assert receipt.details["http_status"] == 429
        assert receipt.details["dead_letter"]


@pytest.mark.parametrize(
    ("retry", "told"),
    [
        (Retry(after=60), "the handler asked to be tried again in 60 s"),
        (Retry(after=60, message="the mill is full"), "the mill is full"),
        (Retry(), "the handler asked to be tried again"),
    ],
)
async def test_a_retry_that_says_nothing_is_told_as_what_it_is(retry: Retry, told: str) -> None:
    async def ask() -> None:
        raise retry

    async with TestReach(agent_with(ask)) as bus:
        receipt = await ended(bus, 1, max_attempts=1)
        assert (receipt.code, receipt.error_message) == ("handler.retry", told)


@pytest.mark.parametrize("after", [0, 0.001])
async def test_a_handler_that_always_asks_at_once_is_called_ten_times_quickly_and_then_once_a_second(
    after: float,
) -> None:
    runs: list[int] = []
    async with TestReach() as bus:

        async def never() -> None:
            runs.append(bus.clock.monotonic_ms())
            raise Retry(after=after)

        await bus.start(agent_with(never))
        receipt = await ended(bus, 30.5)
        assert receipt.code in {"timeout.total", "handler.retry"}
        gaps = [later - earlier for earlier, later in itertools.pairwise(runs)]
        assert all(gap >= 100 for gap in gaps[:10])
        assert all(gap >= 1_000 for gap in gaps[10:])
        assert 30 <= len(runs) <= 41
