"""The table of codes, against the protocol and its page."""

from pathlib import Path

import pytest

from reach.envelope.codes import TABLE, default_code, describe, markdown
from reach.envelope.receipt import Status

ROOT = Path(__file__).parents[3]


def test_the_page_is_current() -> None:
    assert (ROOT / "docs" / "codes.md").read_text() == markdown()


def test_no_code_stands_there_twice_and_every_line_is_whole() -> None:
    assert len({line.code for line in TABLE}) == len(TABLE)
    assert all(line.meaning.endswith(".") and 200 <= line.http < 600 for line in TABLE)


@pytest.mark.parametrize(
    ("code", "status", "inside", "http"),
    [
        ("ok", "success", "", 200),
        ("envelope.malformed", "failed", "no", 400),
        ("envelope.id_conflict", "failed", "no", 409),
        ("envelope.wrong_partition", "failed", "no", 421),
        ("target.bad_pattern", "failed", "no", 422),
        ("type.unregistered", "failed", "no", 422),
        ("error.unknown_type", "failed", "no", 422),
        ("registration.conflict", "failed", "no", 409),
        ("loop.too_many_hops", "failed", "no", 508),
        ("stage.failed", "failed", "no", 424),
        ("ttl.zero", "failed", "no", 422),
        ("cancelled", "failed", "no", 499),
        ("route.not_found", "failed", "waits", 404),
        ("route.no_candidate", "retryable", "yes", 503),
        ("overloaded", "retryable", "no", 429),
        ("context.exceeded", "retryable", "other agent", 413),
        ("handler.error", "retryable", "yes", 502),
        ("timeout.network", "retryable", "moves", 504),
        ("timeout.processing", "retryable", "yes", 504),
        ("timeout.total", "retryable", "no", 504),
        ("backend.unavailable", "retryable", "", 503),
    ],
)
def test_the_table_of_the_protocol(code: str, status: str, inside: str, http: int) -> None:
    line = describe(code)
    assert (line.code, line.status.value, line.inside, line.http) == (code, status, inside, http)
    assert line.retryable is (status == "retryable")
    assert line.retried_inside is (inside in ("yes", "moves", "other agent"))


def test_families_and_strangers() -> None:
    assert (describe("registration.strange").http, describe("registration.strange").code) == (
        409,
        "registration.strange",
    )
    assert describe("envelope.new").http == 400
    assert (describe("no_such_order").status, describe("no_such_order").http) == (Status.FAILED, 422)


def test_default_codes() -> None:
    assert [default_code(status) for status in Status] == ["ok", "handler.rejected", "handler.error"]
