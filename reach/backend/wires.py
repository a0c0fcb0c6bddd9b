"""Single connections to Redis, and the pools that lend them out."""

import asyncio
import socket
import struct
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from redis import exceptions as redis_errors
from redis.asyncio.connection import AbstractConnection

_AT_ONCE = struct.pack("ii", 1, 0)


class Wire(AbstractConnection):
    """What redis-py's connections lack: to be seen receiving, and to end without a trace.

    Attributes:
        heard: How many bytes have come, over all of its sockets.
    """

    heard = 0

    async def _connect(self) -> None:
        await super()._connect()  # type: ignore[safe-super, no-untyped-call]
        reader = self._reader
        if reader is None:
            return
        feed = reader.feed_data

        def count(data: Any) -> None:
            self.heard += len(data)
            feed(data)

        reader.feed_data = count  # type: ignore[method-assign]

    async def disconnect(
        self,
        nowait: bool = False,
        error: Exception | None = None,
        failure_count: int | None = None,
        health_check_failed: bool = False,
    ) -> None:
        """Close it. Without waiting (redis-py does so itself where a command fails or is cancelled): by a RST instead of a farewell.

        Else the system goes on sending the last command on behalf of somebody who has long asked again.
        """
        raw = self._writer.get_extra_info("socket") if nowait and self._writer is not None else None
        if raw is not None and raw.fileno() >= 0 and raw.family != socket.AF_UNIX:
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _AT_ONCE)
        await super().disconnect(nowait, error, failure_count, health_check_failed)

    async def drop(self) -> None:
        """Close it at once: what was sent and has not arrived shall not arrive."""
        await self.disconnect(nowait=True)

    async def freshen(self) -> None:
        """Connect; where the other end has gone, or bytes lie there that nobody asked for, anew."""
        if self.is_connected:
            try:
                if not await self.can_read():
                    return
            except (redis_errors.ConnectionError, OSError):
                pass
            await self.drop()
        await self.connect()  # type: ignore[no-untyped-call]


def wire_kind(kind: type[AbstractConnection]) -> type[Wire]:
    """This kind of connection (TCP, TLS, a Unix socket) as a Wire."""
    return type("Wire", (Wire, kind), {})


class Pool:
    """A bounded number of connections; who finds none free waits."""

    def __init__(self, kind: type[Wire], options: Mapping[str, Any], max_connections: int) -> None:
        self._kind, self._options = kind, options
        self._idle: list[Wire] = []
        self._slots = asyncio.Semaphore(max_connections)
        self._leased: set[Wire] = set()
        self.closed = False

    @asynccontextmanager
    async def lease(self) -> AsyncIterator[Wire]:
        """A connection for one exchange, to be freshened first; whatever ends it early, also a cancellation, closes it."""
        async with self._slots:
            if self.closed:
                raise redis_errors.ConnectionError("the backend is closed")
            wire = self._idle.pop() if self._idle else self._kind(**self._options)
            self._leased.add(wire)
            whole = False
            try:
                yield wire
                whole = not self.closed
            finally:
                self._leased.discard(wire)
                if whole:
                    self._idle.append(wire)
                else:
                    await wire.drop()

    async def drop_idle(self) -> None:
        """Close what nobody uses now."""
        idle, self._idle = self._idle, []
        for wire in idle:
            await wire.drop()

    async def close(self) -> None:
        """Close everything, also what is in use."""
        self.closed = True
        await self.drop_idle()
        for wire in list(self._leased):
            await wire.drop()
