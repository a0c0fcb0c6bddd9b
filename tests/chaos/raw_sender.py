"""A sender that knows the protocol and a Redis client only: section 10 under fire. It sends again whatever it is not sure of."""

import asyncio
import contextlib
import json
import os
from collections import defaultdict
from collections.abc import AsyncIterator
from typing import Any

import redis.asyncio
import redis.exceptions

from reach import Receipt
from reach.backend.keys import KeySpace
from reach.sdk.pending import Waiters
from tests.chaos.histories import Mail
from tests.chaos.worker_agent import ENV

KEYS = KeySpace(ENV)
KEEP_EVERY_S = 2.0
_AWAY = (redis.exceptions.ConnectionError, redis.exceptions.TimeoutError)


class RawSender:
    """`async with RawSender.open(url, mail) as raw`. `sent`: how many XADDs were acknowledged."""

    def __init__(self, client: redis.asyncio.Redis, mail: Mail) -> None:
        self.mailbox = f"raw.{os.urandom(8).hex()}"
        self.sent = 0
        self._client: Any = client  # redis-py types no command
        self._mail = mail
        self._key = KEYS.mail(0, self.mailbox)
        self._legs: dict[
            str, int
        ] = {}  # by the notice `routed`: before it nobody knows how many receipts there will be
        self._receipts: dict[str, list[Receipt[Any]]] = defaultdict(list)
        self._news = Waiters()
        self._closed = False  # beside the cancellation, which redis-py can swallow on Python 3.11

    @classmethod
    @contextlib.asynccontextmanager
    async def open(cls, url: str, mail: Mail) -> AsyncIterator["RawSender"]:
        """Make the mailbox, and read and renew it inside."""
        async with redis.asyncio.Redis.from_url(url, protocol=2) as client:
            one = cls(client, mail)
            await one._call("XADD", one._key, "MAXLEN", "~", 1000, "*", "hello", "1")
            await one._call("PEXPIRE", one._key, 60_000)
            services = [asyncio.create_task(one._read()), asyncio.create_task(one._keep())]
            try:
                yield one
            finally:
                one._closed = True
                for service in services:
                    service.cancel()
                ends = await asyncio.gather(*services, return_exceptions=True)
            for end in ends:  # one that died long ago has heard nothing since: what is missing then is no loss of ours
                if isinstance(end, Exception):
                    raise end

    async def send(
        self,
        msg_id: str,
        sender: str,
        scope: str,
        body: Any,
        total_s: float,
        *,
        reply: bool = True,
        not_before_ms: int = 0,
    ) -> None:
        """XADD an envelope until it is acknowledged."""
        envelope: dict[str, Any] = {
            "msg_id": msg_id,
            "type": "request",
            "timestamp": 1,
            "source": {"agent_id": sender},
            "target": {"pattern": "capability:work", "scope": scope},
            "payload": {"schema": "work.v1", "body": body},
            "ttl_ms": round(total_s * 1000),
            "timeouts": {"total_ms": round(total_s * 1000)},
        }
        if scope == "one":
            self._legs[msg_id] = 1
        if not_before_ms:
            envelope["not_before"] = not_before_ms
        if reply:
            envelope["reply_to"] = self.mailbox
        await self._call("XADD", KEYS.ingress(0, "normal"), "*", "e", json.dumps(envelope, separators=(",", ":")))
        self.sent += 1

    def count(self, msg_id: str) -> int:
        """How many receipts have come for it."""
        return len(self._receipts[msg_id])

    async def receipts(self, msg_id: str, known: int, within_s: float) -> tuple[Receipt[Any], ...]:
        """All that have come, once each leg has one more than the `known` ones, or once the time is over."""

        def whole() -> bool:
            legs = self._legs.get(msg_id, 0)
            return (
                bool(legs)
                and self.count(msg_id) >= known + legs
                and len({one.leg for one in self._receipts[msg_id]}) >= legs
            )

        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(within_s):
                while not whole():
                    await self._news.wait()
        return tuple(self._receipts[msg_id])

    async def _call(self, *command: Any) -> Any:
        while True:
            try:
                return await self._client.execute_command(*command)
            except _AWAY:
                if self._closed:
                    return None
                await asyncio.sleep(0.02)

    async def _read(self) -> None:
        cursor = b"0"
        while not self._closed:
            read = await self._call("XREAD", "COUNT", 200, "BLOCK", 1000, "STREAMS", self._key, cursor)
            for cursor, fields in (entry for _, entries in read or () for entry in entries):
                if b"n" in fields:
                    self._on_notice(json.loads(fields[b"n"]))
                if b"r" not in fields:
                    continue
                receipt = self._mail.add(self.mailbox, cursor.decode(), fields[b"r"])
                if receipt is not None:
                    self._receipts[receipt.msg_id].append(receipt)
            self._news.wake()

    def _on_notice(self, notice: dict[str, Any]) -> None:
        if notice["notice"] == "routed":
            legs = notice.get("legs", 1)
            self._legs[notice["msg_id"]] = legs if isinstance(legs, int) else len(legs)

    async def _keep(self) -> None:
        while not self._closed:
            await asyncio.sleep(KEEP_EVERY_S)
            kept = await self._call("PEXPIRE", self._key, 60_000)
            assert kept != 0, "the mailbox is gone: nobody has renewed it for a minute"
