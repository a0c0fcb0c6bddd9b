"""What counting costs for each message, in a router and in an agent, and what a scrape costs. Run: python -m tests.benchmarks.metrics."""

import time
from collections.abc import Callable

from reach.tracing.exposition import MetricsPage
from reach.tracing.readings import Readings
from reach.tracing.tally import Tally

ROUNDS, MESSAGES = 15, 2_000
MSG = "a3f2c1e4-9b8d-4f3a-8c2e-1a2b3c4d5e6f"


def best_us(run: Callable[[], None], times: int) -> float:
    """The best of some rounds: what others do on this machine only adds to it."""
    best = float("inf")
    for _ in range(ROUNDS):
        began = time.perf_counter()
        for _ in range(times):
            run()
        best = min(best, (time.perf_counter() - began) / times * 1e6)
    return best


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

    print(f"metrics: a router {best_us(router, MESSAGES):.2f} us a message, an agent {best_us(agent, MESSAGES):.2f} us")
    print(f"metrics: a scrape {best_us(scrape, 20):.0f} us")


if __name__ == "__main__":
    main()
