"""A TCP proxy whose connections fail as they are told to: late, cut in the middle of a frame, deaf, dumb, or refused.

async with FaultProxy(server.port) as proxy:
    url = proxy.url
    proxy.swallow_replies()               # every connection, also those that come; or proxy.swallow_replies(proxy.links[0])
    proxy.heal()

Nothing is left to chance: what happens to a byte depends on the orders given and on the bytes before it alone.
"""

import asyncio
import socket
import struct
import time
from dataclasses import dataclass, field
from types import TracebackType
from typing import Literal, Self

HOST = "127.0.0.1"
CHUNK_BYTES = 65_536

Way = Literal["requests", "replies"]


@dataclass
class Orders:
    """What is to happen to a connection.

    Attributes:
        delay_ms: Each chunk waits so long, both ways.
        hole: Nothing goes either way and nothing is closed: half-open, until `heal`.
        swallow: The ways on which everything is lost.
        cut: So many more bytes go that way, then the connection is reset.
    """

    delay_ms: int = 0
    hole: bool = False
    swallow: set[Way] = field(default_factory=set)
    cut: dict[Way, int] = field(default_factory=dict)


class Link:
    """One connection through the proxy. `number`: the how-manieth it is, from 0."""

    def __init__(self, number: int, orders: Orders, client: asyncio.StreamWriter, server: asyncio.StreamWriter) -> None:
        self.number = number
        self.orders = orders
        self.passed: dict[Way, int] = {"requests": 0, "replies": 0}
        self.swallowed = 0
        self._writers = (client, server)
        self.changed = asyncio.Event()

    def order(self, orders: Orders) -> None:
        """From now on this."""
        self.orders = orders
        self.changed.set()
        self.changed = asyncio.Event()

    def reset(self) -> None:
        """Close both ends with a RST."""
        for writer in self._writers:
            raw = writer.get_extra_info("socket")
            if raw is not None and raw.fileno() >= 0:
                raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            writer.transport.abort()

    async def pump(self, way: Way, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Carry one way's bytes until an end, or an order, stops it."""
        try:
            while data := await reader.read(CHUNK_BYTES):
                await self._carry(way, data, writer)
        except OSError:
            pass  # one end was reset: so is the other
        finally:
            writer.close()

    async def _carry(self, way: Way, data: bytes, writer: asyncio.StreamWriter) -> None:
        if self.orders.delay_ms:
            await asyncio.sleep(self.orders.delay_ms / 1000)
        while self.orders.hole:
            await self.changed.wait()
        if way in self.orders.swallow:
            self.swallowed += len(data)
            return
        left = self.orders.cut.get(way)
        if left is not None:
            data, self.orders.cut[way] = data[:left], left - len(data)
        writer.write(data)
        self.passed[way] += len(data)
        await writer.drain()
        if left is not None and self.orders.cut[way] <= 0:
            for one in self._writers:
                one.close()  # what was let through arrives, and then the end
            raise ConnectionResetError


class FaultProxy:
    """Listens on a port of its own and leads to `port`. An async context manager.

    Attributes:
        links: The connections that are open, oldest first.
        made: How many there have been.
        turned_away_s: When (time.monotonic) somebody was turned away.
    """

    def __init__(self, port: int) -> None:
        self._target = port
        self.links: list[Link] = []
        self.made = 0
        self.turned_away_s: list[float] = []
        self._orders = Orders()
        self._refusing = False
        self._pumps: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        self._listener = await asyncio.start_server(self._accept, HOST, 0)
        self.port: int = self._listener.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._listener.close()
        self.reset()
        for pump in tuple(self._pumps):
            pump.cancel()
        await asyncio.gather(*self._pumps, return_exceptions=True)
        await self._listener.wait_closed()

    @property
    def url(self) -> str:
        """The address of a Redis behind it."""
        return f"redis://{HOST}:{self.port}/0"

    # ------------------------------------------------------------ orders: for these links, or for all and those that come

    def delay(self, ms: int, *links: Link) -> None:
        """Everything takes so much longer, each way."""
        self._order(Orders(delay_ms=ms), links)

    def half_open(self, *links: Link) -> None:
        """Silence both ways; both ends believe in it. `heal` lets through what was sent meanwhile."""
        self._order(Orders(hole=True), links)

    def swallow_replies(self, *links: Link) -> None:
        """The server does what it is asked, and its answers are lost."""
        self._order(Orders(swallow={"replies"}), links)

    def swallow_requests(self, *links: Link) -> None:
        """The server never hears of it."""
        self._order(Orders(swallow={"requests"}), links)

    def cut(self, way: Way, after_bytes: int, *links: Link) -> None:
        """Let so many more bytes through, and close."""
        for link in links or self.links:
            link.order(Orders(cut={way: after_bytes}))
        if not links:
            self._orders = Orders(cut={way: after_bytes})

    def reset(self, *links: Link) -> None:
        """Close connections at once, with a RST."""
        for link in links or tuple(self.links):
            link.reset()

    def refuse(self) -> None:
        """Whoever connects is turned away; the others stay."""
        self._refusing = True

    def heal(self, *links: Link) -> None:
        """All is well again, for these or for everybody."""
        self._order(Orders(), links)
        if not links:
            self._refusing = False

    def _order(self, orders: Orders, links: tuple[Link, ...]) -> None:
        for link in links or self.links:
            link.order(_copy(orders))
        if not links:
            self._orders = orders

    # ------------------------------------------------------------ connections

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._pumps.add(task)
        task.add_done_callback(self._pumps.discard)
        try:
            if self._refusing:
                self.turned_away_s.append(time.monotonic())
                writer.transport.abort()
                return
            try:
                far_reader, far_writer = await asyncio.open_connection(HOST, self._target)
            except OSError:
                writer.transport.abort()
                return
            await self._carry(Link(self.made, _copy(self._orders), writer, far_writer), reader, far_reader)
        except asyncio.CancelledError:
            return  # the proxy ends; the server of asyncio would log it

    async def _carry(self, link: Link, reader: asyncio.StreamReader, far_reader: asyncio.StreamReader) -> None:
        self.made += 1
        self.links.append(link)
        client, server = link._writers
        pumps = [
            asyncio.ensure_future(link.pump("requests", reader, server)),
            asyncio.ensure_future(link.pump("replies", far_reader, client)),
        ]
        try:
            await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self.links.remove(link)
            for writer in link._writers:
                writer.close()
            for pump in pumps:
                pump.cancel()
            await asyncio.gather(*pumps, return_exceptions=True)


def _copy(orders: Orders) -> Orders:
    return Orders(orders.delay_ms, orders.hole, set(orders.swallow), dict(orders.cut))
