"""OBS: whatever others write, one event is one line of log, of a bounded length, and no payload is in it."""

import asyncio
import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest
import redis.asyncio

from reach import Agent, Reject
from reach.log import event_log
from reach.testing import wait_until
from reach_worker.logs import BELOW, MAX_TRACEBACK_CHARS, ConsoleFormatter, JsonFormatter
from tests.bugs.served import served
from tests.hearing import told_everything

SECRET = "pin-4711"
FORGED = "12:00:00 error   all is lost"
EVIL = [f"a{sign}{FORGED}" for sign in ("\r\n", "\n", "\r", "\x1b[2J", "\x00", "\u2028", "\x85", "\u2029")]
LONG = "y" * (1 << 20)
MAX_LINE = 8 * MAX_TRACEBACK_CHARS


class Kept(logging.Handler):
    """All records of reach, as they are."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)


@pytest.fixture
def kept() -> Iterator[Kept]:
    with told_everything(Kept()) as handler:
        yield handler


def faults(record: logging.LogRecord) -> list[str]:
    """What is wrong with the lines that a record becomes: JSON, for people, and by a formatter that knows nothing of us."""
    console = ConsoleFormatter().format(record)
    first, *below = console.splitlines()
    as_json = JsonFormatter().format(record)
    found = []
    if as_json.splitlines() != [as_json] or json.loads(as_json)["event"] == "":
        found.append(f"not one line of JSON: {as_json[:200]!r}")
    if not all(line.startswith(BELOW) for line in below) or (below and record.exc_info is None):
        found.append(f"not one line: {console[:200]!r}")
    if record.getMessage().splitlines() != [record.getMessage()]:
        found.append(f"not one line for a plain handler: {record.getMessage()[:200]!r}")
    lines = (first, as_json, record.getMessage())
    found += [f"steers a terminal: {text[:200]!r}" for text in lines if not text.isprintable()]
    if any(not line.replace("\t", " ").isprintable() for line in below):
        found.append(f"a traceback steers a terminal: {below[-1][:200]!r}")
    if len(as_json) > MAX_LINE or len(console) > MAX_LINE:
        found.append(f"{len(as_json)} and {len(console)} characters")
    if SECRET in as_json + console:
        found.append(f"a payload is in it: {first[:200]}")
    return found


def speaker(number: int) -> Agent:
    """Says what it should not."""
    agent = Agent(f"speaker-{number}", concurrency=16)

    @agent.on("raise")
    async def fail(number: int) -> None:
        raise ValueError([*EVIL, LONG][number])

    @agent.capability("reject")
    async def refuse(number: int) -> None:
        details: dict[str, Any] = {EVIL[number]: LONG}
        raise Reject(EVIL[number], EVIL[number], **details)

    return agent


@pytest.mark.leaves(r"(?s:.*)", why="names that are none stand where somebody has put them")
async def test_B127_one_event_is_one_line_whatever_the_others_write(redis_url: str, kept: Kept) -> None:
    async with served(redis_url, *map(speaker, range(3))) as reach, redis.asyncio.Redis.from_url(redis_url) as client:
        asked = [
            # three each, so that no circuit opens
            *(
                reach.request(f"agent_id:speaker-{n % 3}", n, type="raise", timeout=20, max_attempts=1)
                for n in range(9)
            ),
            *(reach.request("capability:reject", n, timeout=20, headers={"x": EVIL[n]}) for n in range(len(EVIL))),
        ]
        codes = {receipt.code for receipt in await asyncio.gather(*asked)}
        assert codes == {"handler.error", "handler.rejected"}
        sent = [entry for text in [*EVIL, LONG] for entry in entries(text)]
        for key, fields in sent:
            await client.xadd(key, fields)
        for text in EVIL:
            for table in ("agents", "routes", "rules", "types", "schemas"):
                await client.hset(f"reach:{{dev}}:{table}", text, text)
        doors = {key for key, _ in sent}

        async def read() -> bool:
            return not any([await client.xlen(key) for key in doors])

        await wait_until(read, timeout=20)
        assert (await reach.request("capability:reject", 0, timeout=20)).code == "handler.rejected"
    assert len({record.name for record in kept.records}) > 1
    assert any(record.exc_info for record in kept.records)
    assert [fault for record in kept.records for fault in faults(record)] == []


def entries(text: str) -> Iterator[tuple[str, dict[Any, Any]]]:
    """What somebody may add to the doors of an env, with this text wherever one can stand."""
    good = {
        "msg_id": "01a22ec7-f471-75f5-9f64-8054950ae901",
        "type": "request",
        "timestamp": 1,
        "source": {"agent_id": "ann"},
        "target": {"pattern": "capability:raise"},
        "payload": {"body": SECRET},
    }
    bad = {
        "msg_id": text,
        "type": text,
        "source": {"agent_id": text},
        "target": {"pattern": f"capability:{text}"},
        "headers": {text: text},
        "reply_to": text,
        "order_key": text,
        text: text,
    }
    for name, value in bad.items():
        yield "reach:{dev.0}:ingress:normal", {"e": json.dumps(good | {name: value}).encode()}
    yield "reach:{dev.0}:ingress:normal", {"e": text.encode()}
    yield "reach:{dev.0}:receipts", {"m": text.encode(), "l": b"0", "h": text.encode(), "r": text.encode()}
    for field in ("agent_id", "instance_id", "env", "op"):
        declared = {"op": "register", "agent_id": "a", "instance_id": "i", "capabilities": [{"name": text}]}
        yield "reach:{dev}:control", {"c": json.dumps(declared | {field: text}).encode()}
    yield "reach:{dev}:control", {"c": text.encode()}


def test_B127_what_other_libraries_log_is_one_line_too(kept: Kept) -> None:
    for text in [*EVIL, LONG]:
        logging.getLogger("reach.other").warning("they said %s", text)
        try:
            raise OSError(text)
        except OSError:
            event_log("reach.own").exception("it failed", by=text, of=[text])
    console = [ConsoleFormatter().format(record) for record in kept.records]
    assert not any(line.startswith(FORGED) for text in console for line in text.splitlines())
    assert all(len(text) < MAX_LINE for text in console)
    assert all(len(JsonFormatter().format(record).splitlines()) == 1 for record in kept.records)
