"""What Redis holds when all is over: nothing under way, every record ended as its callers were told, only keys of the table."""

import asyncio
import time
from collections.abc import Iterable, Mapping
from typing import Any

import redis

from reach.backend import open_backend
from reach.backend.keys import KeySpace
from reach.envelope.records import decode_receipt
from reach.sdk.receipts import receipt_of
from tests import hygiene
from tests.chaos.histories import Facts, Message, facts_of, is_local
from tests.chaos.report import Report
from tests.chaos.worker_agent import ENV

KEYS = KeySpace(ENV)
SETTLE_S = 30.0
LOOKS_AT_ONCE = 64


def under_way(client: redis.Redis, keys: KeySpace) -> list[str]:
    """What is not over yet: moments that are due, entries of doors and inboxes, and what is pending to anybody."""
    found = [f"due: {client.zcard(keys.due(0))} messages"] if client.exists(keys.due(0)) else []
    inboxes = [key.decode() for key in client.scan_iter(keys.partition_prefix(0) + "inbox:*", count=1000)]
    for stream in (*keys.work(0), keys.control(), *inboxes):
        if not client.exists(stream):
            continue
        if length := client.xlen(stream):
            found.append(f"{stream}: {length} entries")
        found += [
            f"{stream}: {group['pending']} pending in {group['name'].decode()}"
            for group in client.xinfo_groups(stream)
            if group["pending"]
        ]
    return found


async def settled(url: str) -> list[str]:
    """Wait until nothing is under way; what still is after 30 s."""
    with redis.Redis.from_url(url) as client:
        end = time.monotonic() + SETTLE_S
        while (left := under_way(client, KEYS)) and time.monotonic() < end:
            await asyncio.sleep(0.1)
    return left


async def look_through(report: Report, url: str, messages: Iterable[Message]) -> None:
    """Every record that is still there must have ended, and say what the callers were told. Only keys of the table may be there."""
    told = _told(messages)
    with redis.Redis.from_url(url) as client:
        prefix = KEYS.message(0, "")
        ids = [key.decode().removeprefix(prefix) for key in client.scan_iter(prefix + "*", count=1000)]
        report.keys = int(client.dbsize())
    report.records = len(ids)
    ledger = open_backend(url, env=ENV)
    await ledger.open()
    try:
        waiting = iter(ids)

        async def look() -> None:
            for msg_id in waiting:
                await _look_at(report, ledger, msg_id, told)

        async with asyncio.TaskGroup() as group:
            for _ in range(LOOKS_AT_ONCE):
                group.create_task(look())
    finally:
        await ledger.close()
    report.broken += hygiene.walk(url)


def _told(messages: Iterable[Message]) -> dict[tuple[str, int, int], Facts]:
    return {
        (receipt.msg_id, receipt.leg, receipt.round): facts_of(receipt)
        for message in messages
        for receipt in message.receipts
        if not is_local(receipt)
    }


async def _look_at(report: Report, ledger: Any, msg_id: str, told: Mapping[tuple[str, int, int], Facts]) -> None:
    record = await ledger.inspect(0, msg_id)
    if record is None:
        return  # it expired between two looks
    if record.head.tombstones:
        report.broken.append(f"{msg_id}: a tombstone, though the message was sent before it was cancelled")
        return
    for number, leg in record.legs.items():
        if not leg.finished_at_ms:
            report.broken.append(f"{msg_id}: leg {number} is {leg.state}, and nothing is due")
            continue
        receipt = receipt_of(decode_receipt(record.receipts[number]))
        known = told.get((msg_id, number, receipt.round))
        if known is not None and known != facts_of(receipt):
            report.broken.append(f"{msg_id}: leg {number} has {facts_of(receipt)}, its callers were told {known}")
