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
from tests.collector import Collector


class Sink(Collector):
    """Takes everything and looks at nothing: what the collector itself costs is not what is measured."""

    def take(self, data: bytes) -> int:
        """One request."""
        self.requests += 1
        return 200


async def run(share: float, count: int) -> None:
    """Fill Redis, then export everything that is kept."""
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
        print(
            f"share {share:4.0%}  {count:>8,} records  {exported:>8,} spans  {count / took:>9,.0f} records/s"
            f"  {1e6 * cpu / count:5.1f} us CPU a record",
            flush=True,
        )
        await spans.close()
        await backend.close()


def main(count: int = 60_000) -> None:
    """Both shares."""
    print("\n## spans: from Redis to a collector that takes everything\n", flush=True)
    for share in (1.0, 0.01):
        asyncio.run(run(share, count))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--count", type=int, default=60_000, help="records")
    main(parser.parse_args().count)
