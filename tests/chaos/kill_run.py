"""Messages of every kind while routers and agents are killed -9 and connections are cut: nothing lost, nothing run again, one end each.

`python -m tests.chaos.kill_run --requests 20000` prints what happened and exits 1 when a promise was broken, or was not put to the test.
"""

import argparse
import asyncio
import contextlib
import random
import signal
import sys
import tempfile
import time
from pathlib import Path

import redis

from reach.backend.keys import KeySpace
from reach.backend.private_server import PrivateServer
from tests import servers
from tests.chaos import ledger_file, remains
from tests.chaos.cast import AGENTS, ROUTERS, Cast, Cutter, killing
from tests.chaos.histories import Mail
from tests.chaos.report import Report
from tests.chaos.senders import Senders
from tests.chaos.verdict import Judge
from tests.chaos.worker_agent import ENV


async def run(
    requests: int,
    *,
    inflight: int = 128,
    every_s: float = 2.0,
    seed: int = 1,
    slack_ms: int = 500,
    least_kills: int = 0,
    to_the_end: bool = True,
    server: PrivateServer | None = None,
    directory: Path | None = None,
) -> Report:
    """Start everything, send, kill and cut, and judge by what the agents wrote, the callers got and Redis holds.

    Args:
        requests: How many messages at least.
        inflight: How many at a time.
        every_s: The pause between two kills of a router and an agent.
        seed: Who is killed, what is cut, what is sent.
        slack_ms: What a busy machine may add to the 17 s of a takeover and to total + 250 ms.
        least_kills: Messages go on until so many processes have been killed.
        to_the_end: Kill until the last message has ended; else only while new ones are sent.
        server: An empty server; None starts one.
        directory: Where logs and the agents' book go; None: a temporary one.
    """
    report, mail, rng = Report(), Mail(), random.Random(seed)
    with contextlib.ExitStack() as stack:
        directory = directory or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        server = server or stack.enter_context(PrivateServer.start())
        report.server = f"{server.binary.engine} {'.'.join(map(str, server.binary.version))}"
        book = directory / "runs"
        cast = Cast(server.url, book)
        stack.callback(cast.stop)
        for name in (*ROUTERS, *AGENTS):
            cast.start(name)
        await _registered(server.url)

        sending, over = True, False

        def more(n: int) -> bool:
            nonlocal sending
            sending = n < requests or len(cast.kills) < least_kills
            return sending

        def trouble_goes_on() -> bool:  # asked beside the cancellation, which redis-py can swallow on Python 3.11
            return not over and (to_the_end or sending)

        cutter = Cutter(server.url, random.Random(rng.random()))
        async with Senders.open(server.url, mail, random.Random(rng.random())) as senders:
            started = time.monotonic()
            trouble = [
                asyncio.create_task(killing(cast, every_s, random.Random(rng.random()), trouble_goes_on)),
                asyncio.create_task(cutter.run(trouble_goes_on)),
            ]
            try:
                await senders.run(inflight, more)
                report.wall_s = time.monotonic() - started
                report.stall_ms = senders.longest_stall_ms
            finally:
                over = True
                for task in trouble:
                    task.cancel()
                ends = await asyncio.gather(*trouble, return_exceptions=True)
            report.broken += [f"the trouble stopped: {end!r}" for end in ends if isinstance(end, Exception)]
            report.broken += await remains.settled(server.url)
        report.broken += [f"{name} ended by itself" for name in cast.ended()]
        report.killed.update(kill.name for kill in cast.kills)
        report.cuts = cutter.cut
        Judge(report, ledger_file.read(book), mail, cast.kills, slack_ms).judge(senders.messages)
        await remains.look_through(report, server.url, senders.messages)
    return report


async def _registered(url: str) -> None:
    keys = KeySpace(ENV)
    async with asyncio.timeout(60):
        with redis.Redis.from_url(url) as raw:
            while int(raw.hlen(keys.agents())) < len(set(AGENTS.values())) or int(raw.zcard(keys.beats())) < len(
                AGENTS
            ):
                await asyncio.sleep(0.05)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=20_000)
    parser.add_argument("--inflight", type=int, default=128)
    parser.add_argument("--every", type=float, default=2.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--engine", choices=sorted(servers.binaries()), default=None)
    parser.add_argument("--keep", type=Path, default=None, help="keep logs and the agents' book in this directory")
    asked = parser.parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # as Ctrl-C: no process is left behind
    if asked.keep is not None:
        asked.keep.mkdir(parents=True, exist_ok=True)
    with PrivateServer.start(binary=servers.binaries()[asked.engine] if asked.engine else None) as own:
        result = asyncio.run(
            run(
                asked.requests,
                inflight=asked.inflight,
                every_s=asked.every,
                seed=asked.seed,
                server=own,
                directory=asked.keep,
            )
        )
    print(result)
    sys.exit(1 if result.broken or result.unseen else 0)
