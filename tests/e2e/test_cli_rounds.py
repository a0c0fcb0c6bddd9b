"""`--key` on the command line: what ended retryable runs again as the next round, what succeeded or failed is told again."""

import json
import subprocess
from typing import Any

import pytest

from tests.e2e.test_cli import call, place

__all__ = ["place"]

pytestmark = pytest.mark.processes


def receipt_of(done: "subprocess.CompletedProcess[bytes]") -> tuple[Any, ...]:
    told = json.loads(done.stdout)
    return told["status"], told["code"], told["round"], told["stored"]


async def test_what_ended_retryable_runs_again_under_its_key_and_what_ended_for_good_does_not(place: str) -> None:
    for round_ in (1, 2, 3):
        done = await call(place, "request", "breaks", "1", "--key", "job 1", "--max-attempts", "1", "-o", "json")
        assert receipt_of(done) == ("retryable", "handler.error", round_, False), done.stderr
    for stored in (False, True):
        done = await call(place, "request", "refund", '"no"', "--key", "order 9", "-o", "json")
        assert receipt_of(done) == ("failed", "handler.rejected", 1, stored), done.stderr
    for stored in (False, True):
        done = await call(place, "request", "refund", "1", "--key", "order 10", "-o", "json")
        assert receipt_of(done) == ("success", "ok", 1, stored), done.stderr
