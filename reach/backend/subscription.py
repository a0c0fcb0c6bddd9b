"""What is said on sharded channels, heard by one connection that nothing else uses.

Who listens hears what is said from then on; what was said while no connection stood is lost. A dead connection is found as that of a
blocking read is (reach.backend.silence): the server is made to say something at the end of each wait.
"""

import asyncio
from collections.abc import Sequence
from typing import Any

from reach.backend.silence import Silence
from reach.backend.wires import Wire
from reach.errors import BackendUnavailable

MAX_HEARD = 1_000


class Subscription:
    """Channels of one backend; of several who listen one hears. The first `hear` connects, and so does the next one after a failure."""

    def __init__(self, wire: Wire, silence: Silence, channels: Sequence[str], limit_ms: int) -> None:
        self._wire, self._silence, self._channels = wire, silence, tuple(channels)
        self._limit_ms = limit_ms
        self._closed = False
        self._turn = asyncio.Lock()

    async def hear(self, block_ms: int) -> list[tuple[str, bytes]]:
        """(channel, data) of what has been said, at most 1,000; empty after `block_ms`. Cancelled or failed: the next call begins anew.

        Raises:
            BackendUnavailable: The connection is dead, or the server silent.
            RedisError, OSError: As redis-py says it.
        """
        async with self._turn:
            return await self._hear(block_ms)

    async def _hear(self, block_ms: int) -> list[tuple[str, bytes]]:
        if self._closed:
            raise BackendUnavailable("the backend is closed")
        whole = False
        try:
            async with asyncio.timeout((block_ms + self._limit_ms) / 1000) as scope:
                with self._silence.over(self._wire, scope, sent_bytes=0, block_ms=block_ms):
                    heard = [] if self._wire.is_connected else await self._subscribe()
                    await self._listen(heard, block_ms)
            whole = not self._closed
        except TimeoutError as error:
            raise BackendUnavailable("the connection that hears hints is dead") from error
        finally:
            if not whole:
                await self._wire.drop()
        return heard

    async def close(self) -> None:
        """Close the connection, also under who listens."""
        self._closed = True
        await self._wire.drop()

    async def _subscribe(self) -> list[tuple[str, bytes]]:
        heard: list[tuple[str, bytes]] = []
        await self._wire.freshen()
        # One command for each: on a Cluster they lie in slots of their own.
        await self._send([("SSUBSCRIBE", channel) for channel in self._channels])
        left = len(self._channels)
        while left:
            left -= _keep(await self._read(None), heard) == b"ssubscribe"
        return heard

    async def _listen(self, heard: list[tuple[str, bytes]], block_ms: int) -> None:
        asked = False
        while len(heard) < MAX_HEARD:
            # What is there already is taken along: many who say something at once are one look. Before the server's answer comes all that
            # was said before the question.
            reply = await self._read(None if asked else 0 if heard else block_ms / 1000)
            if reply is None and heard:
                return
            if reply is None:
                asked = True
                await self._send([("PING",)])
            elif _keep(reply, heard) == b"pong" and asked:
                return

    async def _read(self, seconds: float | None) -> Any:
        """A reply; None: there was none within so many seconds."""
        return await self._wire.read_response(disable_decoding=True, timeout=seconds, disconnect_on_error=False)

    async def _send(self, commands: Sequence[tuple[str, ...]]) -> None:
        await self._wire.send_packed_command(self._wire.pack_commands(commands), check_health=False)


def _keep(reply: Any, heard: list[tuple[str, bytes]]) -> bytes:
    """Add what was said to `heard`; returns the kind of the reply."""
    kind = bytes(reply[0])
    if kind == b"smessage":
        heard.append((reply[1].decode("utf-8", "replace"), reply[2]))
    elif kind == b"sunsubscribe":
        raise BackendUnavailable("a channel has moved to another server")
    return kind
