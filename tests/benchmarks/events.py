"""How fast hop records go from Redis into a store, and a conversation is found there. Run: python -m tests.benchmarks.events."""

import argparse
import asyncio
import sys
import tempfile
import time
from pathlib import Path

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


async def run(kind: str, count: int) -> None:
    """Fill Redis, then move everything and look for one conversation."""
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
        size = await asyncio.to_thread(size_of, Path(folder))
        print(
            f"{kind:<7} {kept:>8,} records  {kept / took:>9,.0f}/s  {1e6 * cpu / kept:5.1f} us CPU each  {size / kept:5.0f} bytes each"
            f"  a conversation in {spread(asked)} ms",
            flush=True,
        )
        await archiver.close()
        await backend.close()


def main(count: int = 200_000) -> int:
    print(
        f"what the archiver costs: {count:,} hop records from Redis into a store; aim 20,000/s into SQLite", flush=True
    )
    for each in ("sqlite", "jsonl"):
        asyncio.run(run(each, count))
    return 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--count", type=int, default=200_000)
    sys.exit(main(parser.parse_args().count))
