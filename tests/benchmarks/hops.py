"""What the records of one message cost: eight of them, on the hot path and when they are written. Run: python -m tests.benchmarks.hops."""

import asyncio
import statistics
import sys
import time

from reach.tracing.hops import HopRecorder
from reach.tracing.record import Candidate, Point
from reach.tracing.time_base import TimeBase
from tests.benchmarks.measure import spread

#: of a message that takes 150 us of a router's and an agent's time, at most this share
AIM_US = 8.0
ROUNDS = 15
MESSAGES = 1_000
POINTS: tuple[Point, ...] = (
    "message.received",
    "route.matched",
    "route.sent",
    "agent.received",
    "agent.responding",
    "agent.completed",
    "message.delivered",
)
SEEN = tuple(Candidate(f"refund-{n}", "", "", None) for n in range(4))
COUNTS = {"matched": 4, "fit": 4}
TRACEPARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


async def nothing(_: int, __: bytes) -> None:
    """Write to nowhere."""


def record(hops: HopRecorder, msg_id: str, traceparent: str | None) -> None:
    """The records of one message that goes well."""
    for point in POINTS:
        if point == "route.matched":
            hops.add(
                0,
                point,
                msg_id,
                attempt=1,
                correlation_id=msg_id,
                traceparent=traceparent,
                pattern="capability:refund",
                strategy="weighted_random",
                candidates=SEEN,
                counts=COUNTS,
                chosen="refund-1",
            )
        else:
            hops.add(0, point, msg_id, attempt=1, correlation_id=msg_id, traceparent=traceparent, agent="refund-1")


async def main_async() -> int:
    ids = [f"a3f2c1e4-9b8d-4f3a-8c2e-{n:012x}" for n in range(MESSAGES)]
    median = 0.0
    print("\n## hop records: python -m tests.benchmarks.hops\n")
    print(f"the {len(POINTS)} records of a message; µs a message: median (min-max) of {ROUNDS} rounds of {MESSAGES}")
    for name, traceparent in (("with a trace of the sender's", TRACEPARENT), ("without", None)):
        added, written = [], []
        for _ in range(ROUNDS + 1):
            hops = HopRecorder(nothing, TimeBase(), node="n", worker="w", max_records=10 * MESSAGES)
            started = time.perf_counter_ns()
            for msg_id in ids:
                record(hops, msg_id, traceparent)
            between = time.perf_counter_ns()
            await hops.flush()
            added.append((between - started) / MESSAGES / 1000)
            written.append((time.perf_counter_ns() - between) / MESSAGES / 1000)
        median = max(median, statistics.median(added[1:]))
        print(f"  {name:30} add {spread(added[1:], 1)}   write {spread(written[1:], 1)}")
    print(f"  add: aim {AIM_US:g}: {'reached' if median <= AIM_US else 'missed'}")
    return 0


def main() -> int:
    return asyncio.run(main_async())


if __name__ == "__main__":
    sys.exit(main())
