"""An agent whose handlers block it, each in a way of its own: `python -m tests.bugs.blocking_agent AGENT_ID`, address by REACH_REDIS_URL.

REACH_TEST_CLOCK_OFF_S: so many seconds is the clock of its process off.
"""

import json
import os
import re
import sys
import time
from collections.abc import Callable

from reach import Agent

OFF_S = float(os.environ.get("REACH_TEST_CLOCK_OFF_S", "0"))


def sleeps(seconds: float) -> None:
    """Block the event loop alone."""
    time.sleep(seconds)


def backtracks(seconds: float) -> None:
    """Hold the interpreter's lock, in ever longer matches until so much time is over."""
    end = time.monotonic() + seconds
    size = 16
    while time.monotonic() < end:
        re.match(r"(a+)+$", "a" * size + "b")
        size += 1


def loads(_seconds: float) -> None:
    """50 MB of JSON."""
    json.loads("[" + ",".join([f'"{"x" * 48}"'] * 1_000_000) + "]")


def turn_the_clock(off_s: float) -> None:
    """As on a machine whose clock is wrong: the wall clock alone."""
    seconds, nanoseconds = time.time, time.time_ns
    time.time = lambda: seconds() + off_s
    time.time_ns = lambda: nanoseconds() + int(off_s * 1e9)


def made(agent_id: str) -> Agent:
    """One that does all of it, and answers quickly as well."""
    agent = Agent(agent_id, concurrency=4, max_process=60)

    def add(block: Callable[[float], None]) -> None:
        @agent.capability(block.__name__)
        async def handler(seconds: float) -> int:
            block(seconds)
            return os.getpid()

    for block in (sleeps, backtracks, loads):
        add(block)

    @agent.on("block")
    async def block_first(seconds: float) -> int:
        time.sleep(seconds)  # noqa: ASYNC251 - that is what is tested
        return os.getpid()

    @agent.capability("quick")
    async def quick() -> str:
        return agent_id

    @agent.capability("wall")
    async def wall() -> float:
        return time.time()

    return agent


if __name__ == "__main__":
    if OFF_S:
        turn_the_clock(OFF_S)
    made(sys.argv[1]).run(grace=0)
