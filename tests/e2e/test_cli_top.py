"""`reach top`: once for scripts, and again and again for people."""

import json
import signal

import pytest

from reach.testing import wait_until
from tests.e2e.processes import Process
from tests.e2e.test_cli import call, place

__all__ = ["place"]

pytestmark = pytest.mark.processes


async def test_top_shows_how_agents_are_and_have_done(place: str) -> None:
    for target in ("refund", "breaks"):
        await call(place, "request", target, "1", "--max-attempts", "1")

    async def counted() -> bool:
        (line,) = json.loads((await call(place, "top", "--once", "-o", "json")).stdout)
        pace = line["pace"]
        assert (line["agent"], line["state"], line["alive"], line["inbox"]) == ("refund-1", "ready", 1, 0)
        return bool(pace["runs"] == 2 and pace["success"] == 0.5 and pace["p99_ms"] is not None)

    await wait_until(counted, 20)
    out = (await call(place, "top", "--once")).stdout.decode()
    assert out.splitlines()[1].split()[:3] == ["refund-1", "ready", "1/1"]
    with Process("reach.cli", "top", "--every", "0.1", "-o", "json", "--redis-url", place) as shown:
        assert [json.loads(shown.first_line())[0]["agent"] for _ in range(2)] == ["refund-1"] * 2
        shown.signal(signal.SIGINT)
        assert shown.wait()[0] == 130
