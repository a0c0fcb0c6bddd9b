"""What counting costs for each message, in a router and in an agent, and what a scrape costs. Run: python -m tests.benchmarks.metrics."""

import time
from collections.abc import Callable

from reach.tracing.exposition import MetricsPage
from reach.tracing.readings import Readings
from reach.tracing.tally import Tally
from tests.benchmarks.measure import spread

ROUNDS, MESSAGES = 15, 2_000
MSG = "a3f2c1e4-9b8d-4f3a-8c2e-1a2b3c4d5e6f"


def cpu_us(run: Callable[[], None], times: int) -> list[float]:
    """What it costs, round by round, in µs of this process alone."""
    found = []
    for _ in range(ROUNDS + 1):
        began = time.process_time()
        for _ in range(times):
            run()
        found.append((time.process_time() - began) / times * 1e6)
    return found[1:]  # the first one warms up


def main() -> None:
    """Print the figures."""
    tally = Tally(lambda: 1.0)
    tally.agents.add("a")
    run = {"agent": "a", "code": "ok", "duration_us": 100}

    def router() -> None:
        for point in ("message.received", "route.matched", "route.sent"):
            tally.hop(point, MSG, None, run)
        tally.count("reach_messages_in_total")
        tally.delivery.observe(0.003, MSG, None)

    def agent() -> None:
        for point in ("agent.received", "agent.responding", "agent.completed"):
            tally.hop(point, MSG, None, run)
        tally.queue.observe(0.003, MSG, None)

    readings = Readings()
    readings.count(tally)
    readings.plays("router", "agent")
    page = MetricsPage(readings)

    def scrape() -> None:
        page(b"GET /metrics HTTP/1.1\r\n\r\n")

    print("\n## metrics: python -m tests.benchmarks.metrics\n")
    print(f"us of CPU: median (min-max) of {ROUNDS} rounds")
    print(f"  a router counts a message   {spread(cpu_us(router, MESSAGES), 2)}")
    print(f"  an agent counts a message   {spread(cpu_us(agent, MESSAGES), 2)}")
    print(f"  a scrape                    {spread(cpu_us(scrape, 20))}", flush=True)


if __name__ == "__main__":
    main()
