"""Which codes somebody may have misspelt."""

import pytest

from reach.cli.filters import strange_codes


@pytest.mark.parametrize("code", ["process.lost", "batches.trimmed", "ok", "auth.odd", "our.own"])
def test_of_what_there_is_and_of_what_is_like_nothing_there_is_no_hint(code: str) -> None:
    assert strange_codes([code]) == []


@pytest.mark.parametrize(
    ("said", "meant"), [("process.last", "process.lost"), ("batch.trimmed", "batches.trimmed"), ("handler.err0r", "handler.error")]
)  # fmt: skip
def test_a_code_that_is_like_one_of_reach_is_told(said: str, meant: str) -> None:
    assert strange_codes([said]) == [f"{said} is no code of reach's own: did you mean {meant}? (docs/codes.md)"]
