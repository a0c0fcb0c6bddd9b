"""The proxy that the other tests rely on."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from tests.faults.proxy import FaultProxy

Connect = Callable[[FaultProxy], Awaitable["Caller"]]

#: long enough to see that nothing comes
SILENCE_S = 0.1


class Shouter:
    """Answers each line with the line in capitals; remembers what it heard."""

    def __init__(self) -> None:
        self.heard: list[bytes] = []
        self._writers: list[asyncio.StreamWriter] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.append(writer)
        try:
            while line := await reader.readline():
                self.heard.append(line)
                writer.write(line.upper())
                await writer.drain()
        except OSError:
            pass
        finally:
            writer.close()


@pytest.fixture
async def shouter() -> AsyncIterator[tuple[Shouter, FaultProxy]]:
    made = Shouter()
    server = await asyncio.start_server(made.serve, "127.0.0.1", 0)
    async with FaultProxy(server.sockets[0].getsockname()[1]) as proxy:
        yield made, proxy
    server.close()
    await server.wait_closed()


class Caller:
    """One connection through the proxy."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    def say(self, line: bytes) -> None:
        self.writer.write(line)

    async def ask(self, line: bytes) -> bytes:
        self.say(line)
        return await self.hear()

    async def hear(self) -> bytes:
        async with asyncio.timeout(5):
            return await self.reader.readline()

    async def hears_nothing(self) -> bool:
        try:
            async with asyncio.timeout(SILENCE_S):
                await self.reader.read(1)
        except TimeoutError:
            return True
        return False

    async def rest(self) -> bytes:
        """Everything until the end; b"!" for a reset."""
        try:
            async with asyncio.timeout(5):
                return await self.reader.read(-1)
        except ConnectionResetError:
            return b"!"


Pair = tuple[Shouter, FaultProxy]


@pytest.fixture
async def connect() -> AsyncIterator[Connect]:
    """Connects callers, and closes them in the end."""
    made: list[Caller] = []

    async def connect(proxy: FaultProxy) -> Caller:
        made.append(Caller(*await asyncio.open_connection("127.0.0.1", proxy.port, limit=2**21)))
        return made[-1]

    yield connect
    for caller in made:
        caller.writer.transport.abort()
    await asyncio.sleep(0)


async def test_it_carries_both_ways_and_counts(shouter: Pair, connect: Connect) -> None:
    server, proxy = shouter
    caller, other = await connect(proxy), await connect(proxy)
    assert await caller.ask(b"one\n") == b"ONE\n"
    assert await other.ask(b"two\n") == b"TWO\n"
    assert (proxy.made, len(proxy.links), proxy.links[0].passed) == (2, 2, {"requests": 4, "replies": 4})
    assert proxy.url == f"redis://127.0.0.1:{proxy.port}/0"
    assert server.heard == [b"one\n", b"two\n"]


async def test_a_megabyte_goes_through(shouter: Pair, connect: Connect) -> None:
    _, proxy = shouter
    caller = await connect(proxy)
    for _ in range(20):
        assert len(await caller.ask(b"x" * 50_000 + b"\n")) == 50_001


async def test_the_end_of_one_side_ends_the_other(shouter: Pair, connect: Connect) -> None:
    _, proxy = shouter
    caller = await connect(proxy)
    await caller.ask(b"one\n")
    caller.writer.close()
    async with asyncio.timeout(5):
        while proxy.links:
            await asyncio.sleep(0.005)


async def test_delay(shouter: Pair, connect: Connect) -> None:
    _, proxy = shouter
    caller = await connect(proxy)
    await caller.ask(b"one\n")
    proxy.delay(50)
    loop = asyncio.get_running_loop()
    began = loop.time()
    assert await caller.ask(b"two\n") == b"TWO\n"
    assert loop.time() - began >= 0.09
    proxy.heal()
    assert await caller.ask(b"three\n") == b"THREE\n"


async def test_half_open_keeps_what_was_said_for_later(shouter: Pair, connect: Connect) -> None:
    server, proxy = shouter
    caller, other = await connect(proxy), await connect(proxy)
    await caller.ask(b"one\n")
    await other.ask(b"one\n")
    proxy.half_open(proxy.links[0])
    caller.say(b"two\n")
    assert await caller.hears_nothing()
    assert b"two\n" not in server.heard
    assert await other.ask(b"three\n") == b"THREE\n"
    proxy.heal(proxy.links[0])
    assert await caller.hear() == b"TWO\n"


async def test_half_open_for_all_holds_those_that_come_too(shouter: Pair, connect: Connect) -> None:
    _, proxy = shouter
    proxy.half_open()
    caller = await connect(proxy)
    caller.say(b"one\n")
    assert await caller.hears_nothing()
    proxy.heal()
    assert await caller.hear() == b"ONE\n"


async def test_swallowed_replies_are_done_and_lost(shouter: Pair, connect: Connect) -> None:
    server, proxy = shouter
    caller = await connect(proxy)
    await caller.ask(b"one\n")
    proxy.swallow_replies()
    caller.say(b"two\n")
    assert await caller.hears_nothing()
    assert server.heard == [b"one\n", b"two\n"]
    assert proxy.links[0].swallowed == 4
    proxy.heal()
    assert await caller.ask(b"three\n") == b"THREE\n"


async def test_swallowed_requests_are_never_heard(shouter: Pair, connect: Connect) -> None:
    server, proxy = shouter
    caller = await connect(proxy)
    await caller.ask(b"one\n")
    proxy.swallow_requests(proxy.links[0])
    caller.say(b"two\n")
    assert await caller.hears_nothing()
    assert server.heard == [b"one\n"]


async def test_a_cut_in_the_middle_of_a_frame(shouter: Pair, connect: Connect) -> None:
    server, proxy = shouter
    caller = await connect(proxy)
    await caller.ask(b"one\n")
    proxy.cut("replies", 3, proxy.links[0])
    caller.say(b"a long word\n")
    assert await caller.rest() == b"A L"
    assert server.heard[-1] == b"a long word\n"
    other = await connect(proxy)
    await other.ask(b"one\n")
    proxy.cut("requests", 3, proxy.links[0])
    other.say(b"a long word\n")
    assert await other.rest() == b""
    assert server.heard[-1] in (b"one\n", b"a l")  # an end in the middle of a line is read as the rest of it


async def test_a_reset(shouter: Pair, connect: Connect) -> None:
    _, proxy = shouter
    caller, other = await connect(proxy), await connect(proxy)
    await caller.ask(b"one\n")
    await other.ask(b"one\n")
    proxy.reset(proxy.links[0])
    assert await caller.rest() == b"!"
    assert await other.ask(b"two\n") == b"TWO\n"
    proxy.reset()
    assert await other.rest() == b"!"


async def test_whoever_comes_is_refused_and_the_others_stay(shouter: Pair, connect: Connect) -> None:
    _, proxy = shouter
    caller = await connect(proxy)
    await caller.ask(b"one\n")
    proxy.refuse()
    other = await connect(proxy)
    assert await other.rest() in (b"", b"!")
    assert await caller.ask(b"two\n") == b"TWO\n"
    proxy.heal()
    third = await connect(proxy)
    assert await third.ask(b"three\n") == b"THREE\n"


async def test_a_server_that_is_away_turns_callers_away(connect: Connect) -> None:
    async with FaultProxy(1) as proxy:
        caller = await connect(proxy)
        assert await caller.rest() in (b"", b"!")
