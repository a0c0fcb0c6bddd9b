"""What spans cost whoever exports them, at a share of 100 % and of 1 %. Run: python -m tests.benchmarks.spans."""

import argparse
import asyncio
import os
import time
from unittest.mock import patch

import msgspec

from reach.backend import open_backend
from reach.backend.private_server import PrivateServer
from reach.events.span_service import SpanService
from reach.tracing.exporting import open_outlet
from reach.tracing.hops import BATCH_RECORDS
from reach.tracing.sampling import Sampling
from tests.benchmarks.events import record
from tests.benchmarks.measure import spread
from tests.collector import Collector


class Sink(Collector):
    """Takes everything and looks at nothing: what the collector itself costs is not what is measured."""

    def take(self, data: bytes) -> int:
        """One request."""
        self.requests += 1
        return 200


async def run(share: float, count: int) -> tuple[float, float, int]:
    """Fill Redis, then export everything that is kept: records/s, µs of CPU a record, spans."""
    with PrivateServer.start() as server, Sink() as sink:
        backend = open_backend(server.url)
        await backend.open()
        for start in range(0, count, BATCH_RECORDS):
            await backend.record(0, msgspec.json.encode([record(start + at) for at in range(BATCH_RECORDS)]))
        with patch.dict(os.environ, OTEL_EXPORTER_OTLP_ENDPOINT=sink.url):
            outlet = open_outlet(os.environ)
        spans = SpanService(backend, outlet, [0], "benchmark", sampling=Sampling(share=share))
        began, cpu = time.perf_counter(), time.process_time()
        exported = 0
        while True:
            exported += (await spans.run_once()).get("exported", 0)
            if spans.interval_ms != 0:
                break
        took, cpu = time.perf_counter() - began, time.process_time() - cpu
        await spans.close()
        await backend.close()
        return count / took, 1e6 * cpu / count, exported


def main(count: int = 12_000, rounds: int = 5) -> None:
    """Both shares, in turn."""
    print(f"\n## spans: python -m tests.benchmarks.spans --count {count} --rounds {rounds}\n")
    print(
        f"{count:,} hop records from Redis to a collector that takes everything; median (min-max) of {rounds} rounds in turn"
    )
    seen: dict[float, list[tuple[float, float, int]]] = {1.0: [], 0.01: []}
    for _ in range(rounds):
        for share, found in seen.items():
            found.append(asyncio.run(run(share, count)))
    for share, found in seen.items():
        per_s, cpu_us, exported = zip(*found, strict=True)
        print(
            f"  share {share:4.0%}  {spread(exported)} spans  {spread(per_s)} records/s  {spread(cpu_us, 1)} us CPU a record",
            flush=True,
        )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--count", type=int, default=12_000, help="records of a round")
    parser.add_argument("--rounds", type=int, default=5)
    told = parser.parse_args()
    main(told.count, told.rounds)
