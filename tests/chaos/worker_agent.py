"""The process of an agent: works a little and writes down that it did. `python -m tests.chaos.worker_agent URL AGENT_ID FILE`."""

import asyncio
import os
import sys
import time
from pathlib import Path
from typing import Any

import uvloop

from reach import Agent, Context
from tests.chaos import ledger_file

ENV = "chaos"
CONCURRENCY = 8


class FailsOnce(Exception):
    """What the caller asked the first run for."""


def made(agent_id: str, path: Path) -> Agent:
    """The agent, which keeps its book at `path`.

    The body says how it goes: `ms` that it takes, and `fails` where the first run that gets to its end is to fail.
    """
    book = ledger_file.LedgerFile(path)
    one = Agent(agent_id, concurrency=CONCURRENCY)

    @one.capability("work", schema="work.v1")
    async def work(body: dict[str, Any], ctx: Context) -> dict[str, Any]:
        def write(what: str) -> None:
            book.write(what, ctx.msg_id, agent_id, time.time_ns() // 1_000_000, ctx.attempt)

        write("start")
        await asyncio.sleep(body["ms"] / 1000)
        if body.get("fails") and _first(path.parent / f"{ctx.msg_id}.failed"):
            write("fail")
            raise FailsOnce
        write("end")
        return {"n": body["n"]}

    @one.ready
    def up() -> bool:
        up_mark(path, os.getpid()).touch()  # asked once it is registered
        return True

    return one


def up_mark(path: Path, pid: int) -> Path:
    """The file that is there once this process serves."""
    return path.parent / f"{pid}.up"


def _first(mark: Path) -> bool:
    """Whether nobody was here before, in whichever process."""
    try:
        mark.touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


if __name__ == "__main__":
    uvloop.run(made(sys.argv[2], Path(sys.argv[3])).serve(url=sys.argv[1], env=ENV))
