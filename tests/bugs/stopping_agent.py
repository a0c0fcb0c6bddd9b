"""An agent that is told to stop: `python -m tests.bugs.stopping_agent JOURNAL SECONDS GRACE [hold]`, address by REACH_REDIS_URL.

It writes down what it does, a line for each thing: `began N`, `booked N`, `kept N` (the booking is recorded), `ended N`; with `hold` also
`settling STATUS` before an answer is written, which then waits until the file `JOURNAL.go` is there. SECONDS may be `go`: an answer takes
until that file is there.
"""

import asyncio
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from reach import Agent, Context
from reach.backend.redis_backend.agent import AgentSide
from reach.backend.steps import Settlement, SettleVerdict

CONCURRENCY = 4
LOOK_S = 0.01


async def gone(journal: Path) -> None:
    """Wait until another process has made the file."""
    while not journal.with_suffix(".go").exists():
        await asyncio.sleep(LOOK_S)


def made(journal: Path, seconds: str) -> Agent:
    """The agent. An answer takes so many seconds, or until it may go."""
    agent = Agent("worker", concurrency=CONCURRENCY, max_process=60)

    def note(what: str, number: int) -> None:
        with journal.open("a") as lines:
            lines.write(f"{what} {number} {os.getpid()}\n")

    @agent.capability("work")
    async def work(number: int, ctx: Context) -> int:
        def book() -> int:
            note("booked", number)
            return number

        note("began", number)
        booked: int = await ctx.once("book", book)
        note("kept", number)
        # the work: a handler that takes so long
        await (gone(journal) if seconds == "go" else asyncio.sleep(float(seconds)))
        note("ended", number)
        return booked

    return agent


def hold(journal: Path) -> None:
    """Every answer waits at the door to Redis until the test lets it go."""
    settle = AgentSide.settle

    async def late(
        self: AgentSide, partition: int, agent_id: str, settlements: Sequence[Settlement]
    ) -> list[SettleVerdict]:
        with journal.open("a") as lines:
            lines.writelines(f"settling {one.answer.status} {os.getpid()}\n" for one in settlements)
        await gone(journal)
        return await settle(self, partition, agent_id, settlements)

    AgentSide.settle = late  # type: ignore[method-assign]


if __name__ == "__main__":
    path = Path(sys.argv[1])
    if sys.argv[4:] == ["hold"]:
        hold(path)
    made(path, sys.argv[2]).run(grace=float(sys.argv[3]))
