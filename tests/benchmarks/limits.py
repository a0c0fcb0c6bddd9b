"""The limit to compare with: a routed request and reply written by hand, with nothing that a broker is chosen for.

requester --XADD--> ingress --XREADGROUP--> router --EVALSHA (dedup by SET NX, XADD inbox)--> responder
responder --XADD--> replies --XREAD--> requester

A bare asyncio Protocol with hiredis on both ends, batches, no record, no lease, no retry, no receipt. It cannot be done much faster in
Python, and it loses messages in a dozen ways. `python -m tests.benchmarks.limits` is one role of it; `tests.benchmarks.paths` drives it.
"""

import asyncio
import collections
import json
import os
import sys
import time
import uuid
from typing import Any, cast

import hiredis
import redis
import uvloop

BATCH = 200
ROUTE = """#!lua
local ingress, inbox, n = ARGV[1], ARGV[2], tonumber(ARGV[3])
for i = 1, n do
  local id, m, e = ARGV[1 + 3 * i], ARGV[2 + 3 * i], ARGV[3 + 3 * i]
  if redis.call('SET', 'limit:m:' .. m, '1', 'NX', 'EX', 60) then redis.call('XADD', inbox, '*', 'e', e) end
  redis.call('XACK', ingress, 'g', id)
  redis.call('XDEL', ingress, id)
end
return n
"""
INGRESS, INBOX, REPLIES = "limit:ingress", "limit:inbox", "limit:replies"


class Connection(asyncio.Protocol):
    """Commands out, replies in, in order; all that is sent within one turn of the loop is one write."""

    def __init__(self) -> None:
        self._reader = hiredis.Reader()
        self._waiting: collections.deque[asyncio.Future[Any]] = collections.deque()
        self._loop = asyncio.get_running_loop()
        self._out: list[bytes] = []
        self._transport: asyncio.WriteTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.WriteTransport, transport)  # uvloop's own is not registered as one

    def data_received(self, data: bytes) -> None:
        self._reader.feed(data)
        while (reply := self._reader.gets()) is not False:
            future = self._waiting.popleft()
            if not future.done():
                future.set_result(reply)

    def send(self, *command: str | int | bytes) -> asyncio.Future[Any]:
        future: asyncio.Future[Any] = self._loop.create_future()
        self._waiting.append(future)
        if not self._out:
            self._loop.call_soon(self._flush)
        self._out.append(hiredis.pack_command(command))  # type: ignore[arg-type]  # its stub means a tuple of any length
        return future

    def _flush(self) -> None:
        assert self._transport is not None
        self._transport.write(b"".join(self._out))
        self._out.clear()


async def connect(url: str) -> Connection:
    loop = asyncio.get_running_loop()
    where = redis.connection.parse_url(url)  # type: ignore[no-untyped-call]
    if "path" in where:
        _, connection = await loop.create_unix_connection(Connection, where["path"])
    else:
        _, connection = await loop.create_connection(
            Connection, where.get("host", "localhost"), where.get("port", 6379)
        )
    return connection


async def router(url: str) -> None:
    connection = await connect(url)
    script = await connection.send("SCRIPT", "LOAD", ROUTE)
    while True:
        read = await connection.send(
            "XREADGROUP", "GROUP", "g", "r1", "COUNT", BATCH, "BLOCK", 1000, "STREAMS", INGRESS, ">"
        )
        if read:
            arguments: list[bytes] = []
            for entry_id, fields in read[0][1]:
                arguments += (entry_id, json.loads(fields[1])["msg_id"].encode(), fields[1])
            await connection.send("EVALSHA", script, 1, INGRESS, INGRESS, INBOX, len(read[0][1]), *arguments)


async def responder(url: str) -> None:
    reading, writing = await connect(url), await connect(url)
    while True:
        read = await reading.send(
            "XREADGROUP", "GROUP", "g", "a1", "COUNT", BATCH, "BLOCK", 1000, "STREAMS", INBOX, ">"
        )
        if read:
            for _, fields in read[0][1]:
                json.loads(fields[1])
                writing.send("XADD", REPLIES, "MAXLEN", "~", 10000, "*", "e", fields[1])
            ids = [entry_id for entry_id, _ in read[0][1]]
            writing.send("XACK", INBOX, "g", *ids)
            await writing.send("XDEL", INBOX, *ids)


async def requester(url: str, count: int, inflight: int, body: dict[str, Any]) -> dict[str, Any]:
    """Keeps `inflight` requests under way until `count` have been answered."""
    reading, writing = await connect(url), await connect(url)
    sent_at: dict[str, float] = {}
    latencies: list[float] = []
    sent = 0

    def fire() -> None:
        nonlocal sent
        sent += 1
        msg_id = str(uuid.uuid4())
        sent_at[msg_id] = time.perf_counter()
        writing.send("XADD", INGRESS, "*", "e", json.dumps({**body, "msg_id": msg_id}, separators=(",", ":")).encode())

    cursor: bytes | str = "$"
    started, cpu = time.perf_counter(), time.process_time()
    first = reading.send("XREAD", "COUNT", BATCH, "BLOCK", 1000, "STREAMS", REPLIES, cursor)
    for _ in range(inflight):
        fire()
    while len(latencies) < count:
        read = await first
        for entry_id, fields in read[0][1] if read else ():
            cursor = entry_id
            latencies.append(time.perf_counter() - sent_at.pop(json.loads(fields[1])["msg_id"]))
            if sent < count:
                fire()
        if len(latencies) < count:
            first = reading.send("XREAD", "COUNT", BATCH, "BLOCK", 1000, "STREAMS", REPLIES, cursor)
    return {"latencies": latencies, "wall_s": time.perf_counter() - started, "cpu_s": time.process_time() - cpu}


def prepare(client: redis.Redis) -> None:
    """Streams and groups, once per server."""
    for stream in (INGRESS, INBOX):
        client.delete(stream)
        client.xgroup_create(stream, "g", "0", mkstream=True)
    client.delete(REPLIES)
    client.xadd(REPLIES, {"hello": "1"})


if __name__ == "__main__":
    role, address = sys.argv[1], sys.argv[2]
    if role == "router":
        uvloop.run(router(address))
    elif role == "responder":
        uvloop.run(responder(address))
    else:
        result = uvloop.run(requester(address, int(sys.argv[3]), int(sys.argv[4]), json.loads(sys.argv[5])))
        print(json.dumps(result), flush=True)
        os._exit(0)
