"""What the command line tells of messages that have passed: from Redis, and from an event store."""

import json
from pathlib import Path

import pytest

from reach.testing import wait_until
from tests.e2e.test_cli import call, place

__all__ = ["place"]

pytestmark = pytest.mark.processes


async def test_trace_draws_the_conversation_of_a_message(place: str, tmp_path: Path) -> None:
    done = await call(place, "request", "refund", "1", "-o", "json", "--correlation-id", "case 7")
    msg_id = json.loads(done.stdout)["msg_id"]

    async def whole() -> bool:
        told = json.loads((await call(place, "trace", msg_id, "--json")).stdout or b"{}")
        return len(told.get("messages", [])) == 1 and told["records"] == 7

    await wait_until(whole, 20)
    done = await call(place, "trace", "case 7", "--event-store", f"sqlite:{tmp_path}")
    assert done.returncode == 0, done.stderr
    head, message, *rest = done.stdout.decode().splitlines()
    assert head.startswith("conversation case 7: 1 message, 1 run, ")
    assert f"capability:refund  {msg_id}" in message
    assert ": ok, " in message
    assert len(rest) == 3
    assert "run 1 refund-1/" in "\n".join(rest)
    done = await call(place, "trace", "nobody")
    assert (done.returncode, done.stdout) == (1, b"")
    assert b"no records of nobody" in done.stderr
    assert (await call(place, "trace", "x", "--event-store", "ftp:x")).returncode == 78


async def test_explain_says_who_was_looked_at_and_why_not(place: str) -> None:
    done = await call(place, "request", "capability:refund", "1", "-o", "json")
    msg_id = json.loads(done.stdout)["msg_id"]

    async def ended() -> bool:
        told = json.loads((await call(place, "explain", msg_id, "-o", "json")).stdout or b"{}")
        return bool(told.get("code") == "ok" and told["runs"] and told["decisions"])

    await wait_until(ended, 20)
    out = (await call(place, "explain", msg_id)).stdout.decode()
    assert "1 answer the pattern, 1 fit" in out
    assert "policy now: none, so the default holds" in out
    assert "refund-1" in out.split("AGENT", 1)[1]
    assert (await call(place, "explain", "nobody")).returncode == 1
