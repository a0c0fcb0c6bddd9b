"""How fast hop records go from Redis into a store, and a conversation is found there. Run: python -m tests.benchmarks.events.

Under load only the CPU time of a record can be compared, with a round of the same run: so the stores take turns.
"""

import argparse
import asyncio
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import msgspec

from reach.backend import open_backend
from reach.backend.private_server import PrivateServer
from reach.events.archiver import Archiver
from reach.events.opening import open_store
from reach.events.store import Query
from reach.tracing.hops import BATCH_RECORDS
from reach.tracing.record import HopRecord
from tests.benchmarks.measure import spread

POINTS = ("message.received", "route.matched", "route.sent", "agent.received", "agent.responding", "agent.completed")


def record(number: int) -> HopRecord:
    """One of the records of a message, as long as they are in life."""
    message, step = divmod(number, len(POINTS))
    return HopRecord(
        at_us=time.time_ns() // 1000,
        point=POINTS[step],  # type: ignore[arg-type]
        msg_id=f"0192f000-0000-7000-8000-{message:012x}",
        leg=0,
        attempt=1,
        correlation_id=f"conversation-{message // 5}",
        trace_id=f"{message:032x}",
        span_id=f"{number:016x}",
        parent_span_id=f"{number:016x}",
        agent=f"agent-{message % 20}",
        worker="router-1",
        pattern="capability:refund",
        code="ok" if step == 5 else "",
        duration_us=123,
    )


def size_of(folder: Path) -> int:
    """Of all files in it, in bytes."""
    return sum(path.stat().st_size for path in folder.iterdir())


class Round(NamedTuple):
    """What one round has shown."""

    per_s: float
    cpu_us: float
    size: float
    find_ms: float


async def run(kind: str, count: int) -> Round:
    """Fill Redis, then move everything and look for some conversations."""
    with PrivateServer.start() as server, tempfile.TemporaryDirectory() as folder:
        backend = open_backend(server.url)
        await backend.open()
        for start in range(0, count, BATCH_RECORDS):
            await backend.record(0, msgspec.json.encode([record(start + at) for at in range(BATCH_RECORDS)]))
        store = open_store(f"{kind}:{folder}")
        archiver = Archiver(backend, store, [0], "benchmark")
        began, cpu = time.perf_counter(), time.process_time()
        kept = 0
        while report := await archiver.run_once():
            kept += report["kept"]
        took, cpu = time.perf_counter() - began, time.process_time() - cpu
        asked = []
        for at in range(20):
            began = time.perf_counter()
            found = await store.find(Query(fields={"correlation_id": (f"conversation-{at * 7}",)}))
            asked.append(1000 * (time.perf_counter() - began))
            assert len(found) == 5 * len(POINTS), len(found)
        await archiver.close()
        await backend.close()
        size = await asyncio.to_thread(size_of, Path(folder))
        return Round(kept / took, 1e6 * cpu / kept, size / kept, statistics.median(asked))


def main(count: int = 30_000, rounds: int = 5) -> int:
    """Print the figures."""
    print(f"\n## the archiver: python -m tests.benchmarks.events --count {count} --rounds {rounds}\n")
    print(
        f"{count:,} hop records from Redis into a store; median (min-max) of {rounds} rounds in turn; aim: 20,000/s into SQLite"
    )
    seen: dict[str, list[Round]] = {"sqlite": [], "jsonl": []}
    for _ in range(rounds):
        for kind, found in seen.items():
            found.append(asyncio.run(run(kind, count)))
    for kind, found in seen.items():
        per_s, cpu_us, size, find_ms = zip(*found, strict=True)
        print(
            f"  {kind:<7} {spread(per_s)} records/s  {spread(cpu_us, 1)} us CPU each  {statistics.median(size):,.0f} bytes each"
            f"  a conversation in {spread(find_ms, 1)} ms",
            flush=True,
        )
    return 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--count", type=int, default=30_000, help="records of a round")
    parser.add_argument("--rounds", type=int, default=5)
    told = parser.parse_args()
    sys.exit(main(told.count, told.rounds))
