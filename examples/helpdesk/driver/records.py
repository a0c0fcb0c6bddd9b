"""The hop records of a run, as routers, agents and client wrote them to `events`, and a conversation as a timeline."""

import asyncio
import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from examples.helpdesk.driver.conversation import STEPS, Conversation
from reach import Reach

Record = Mapping[str, Any]

#: what every message passes, in this order
POINTS = (
    "message.received",
    "route.matched",
    "route.sent",
    "agent.received",
    "agent.responding",
    "agent.completed",
    "message.delivered",
)
_PAGE = 500
_QUIET_S = 0.25  # records are written every 100 ms: when nothing has come for so long, all are there
_MOST_S = 3.0


async def read_all(reach: Reach) -> list[Record]:
    """Every record of the env, in the order of their moments. Waits a moment for those that are still on their way."""
    found: list[Record] = []
    cursors = dict.fromkeys(range(reach.backend.partitions), "0-0")
    loop = asyncio.get_running_loop()
    end = loop.time() + _MOST_S
    quiet_at = loop.time() + _QUIET_S
    while loop.time() < min(quiet_at, end):
        for partition, cursor in cursors.items():
            for entry, batch in await reach.backend.read_events(partition, cursor, 10, _PAGE):
                cursors[partition] = entry
                found += json.loads(batch)
                quiet_at = loop.time() + _QUIET_S
    return sorted(found, key=lambda record: int(record["at_us"]))


def complete(talk: Conversation, records: Sequence[Record]) -> bool:
    """Whether all seven points of each of its messages are there: a process that is killed takes its last records with it."""
    seen: dict[str, set[str]] = defaultdict(set)
    for record in records:
        seen[record["msg_id"]].add(record["point"])
    return all(set(POINTS) <= seen[receipt.msg_id] for receipt in talk.receipts)


def timeline(talk: Conversation, records: Sequence[Record]) -> Iterator[tuple[str, str, str, str]]:
    """(moment, step, point, what) of every hop of a conversation."""
    step_of = {receipt.msg_id: step for step, receipt in zip(STEPS, talk.receipts, strict=False)}
    own = [record for record in records if record["msg_id"] in step_of]
    for record in own:
        after_ms = (int(record["at_us"]) - int(own[0]["at_us"])) / 1000
        yield f"{after_ms:9.1f} ms", step_of[record["msg_id"]], str(record["point"]), _told(record)


def _told(record: Record) -> str:
    parts = [str(record[name]) for name in ("worker", "agent") if record.get(name)]
    if record.get("chosen"):
        parts.append(f"-> {record['chosen']}")
    if record.get("strategy"):
        parts.append(f"by {record['strategy']}")
    if record.get("code"):
        parts.append(str(record["code"]))
    if record.get("duration_us"):
        parts.append(f"({int(record['duration_us']) / 1000:.1f} ms)")
    return " ".join(parts)
