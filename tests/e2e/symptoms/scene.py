"""A place where something is wrong, and the commands of a page run in it."""

import asyncio
import re
import shlex
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, AbstractContextManager, AsyncExitStack
from typing import Any, TypeVar

from click.testing import CliRunner

from reach import Agent, Reach, Receipt
from reach.cli import main
from tests.bugs.served import served
from tests.integration.sdk.world import router

T = TypeVar("T")

#: so long may it take until a command shows what the page says: records are written behind the work
SHOWN_WITHIN_S = 20.0


class Scene:
    """What a symptom needs: a server, what runs on it, and what the names in capitals of the page are here."""

    def __init__(self, url: str, stack: AsyncExitStack) -> None:
        self.url = url
        self.names: dict[str, str] = {}
        self.variables = {"REACH_REDIS_URL": url}
        self._stack = stack

    async def enter(self, thing: AbstractAsyncContextManager[T]) -> T:
        """It runs until the scene is over."""
        return await self._stack.enter_async_context(thing)

    def enter_sync(self, thing: AbstractContextManager[T]) -> T:
        """The same for what needs no loop."""
        return self._stack.enter_context(thing)

    def at_end(self, call: Callable[[], Awaitable[object]]) -> None:
        """Called when the scene is over."""
        self._stack.push_async_callback(call)

    async def router(self, **options: Any) -> None:
        """A router alone."""
        await self.enter(router(self.url, **options))

    async def town(self, *agents: Agent) -> Reach:
        """A router and these agents; the client."""
        return await self.enter(served(self.url, *agents))

    async def sent(self, reach: Reach, target: str, body: object = None, **options: Any) -> Receipt[Any]:
        """Send and wait for the end; the page calls the message MSG_ID from now on."""
        handle = await reach.send(target, body, **options)
        self.names["MSG_ID"] = handle.msg_id
        return await handle.receipt(30)

    async def shows(self, command: str, lines: list[str]) -> None:
        """The output of a command of the page has these lines, now or soon."""
        loop = asyncio.get_running_loop()
        end = loop.time() + SHOWN_WITHIN_S
        while True:
            told = await self.run(command)
            missing = [line for line in lines if not is_in(self.filled(line), told)]
            if not missing:
                return
            assert loop.time() < end, f"$ {command}\n{told}\nlacks\n" + "\n".join(missing)
            await asyncio.sleep(0.02)

    def filled(self, line: str) -> str:
        """The line with what the names of the page are here."""
        return " ".join(self.names.get(word, word) for word in line.split(" "))

    async def run(self, command: str) -> str:
        """What a command of the page prints, on both streams."""
        program, *arguments = [self.names.get(word, word) for word in shlex.split(command)]
        assert program == "reach", command
        done = await asyncio.to_thread(CliRunner().invoke, main, arguments, env=self.variables)
        if done.exception is not None and not isinstance(done.exception, SystemExit):
            raise done.exception
        return done.output


def is_in(line: str, output: str) -> bool:
    """Whether a line of the page, in which `...` stands for any text, is part of a line of the output."""
    parts = [r"\s+".join(map(re.escape, part.split())) for part in line.split("...")]
    return re.search(r"[^\n]*".join(parts), output) is not None


Driver = Callable[[Scene], Awaitable[None]]
SYMPTOMS: dict[str, Driver] = {}
"""Title of a section of the page -> what brings it about."""


def symptom(title: str) -> Callable[[Driver], Driver]:
    """Decorate what brings a section's symptom about."""

    def add(driver: Driver) -> Driver:
        assert title not in SYMPTOMS, title
        SYMPTOMS[title] = driver
        return driver

    return add
