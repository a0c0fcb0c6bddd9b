"""How well each strategy chooses. Run: python -m tests.benchmarks.choosing [--messages N] [--seeds N] [--only NAME].

Simulations on the real decision code and clocks of their own, no server. The agents and their queues: tests/benchmarks/queues.py; who has
not met a conversation, who keeps what, and exact shares: tests/benchmarks/eyes.py.
"""

import argparse
import statistics
import sys
from collections.abc import Sequence
from typing import NamedTuple

from tests.benchmarks import eyes
from tests.benchmarks.queues import TWENTY, Kind, Simulation


class Case(NamedTuple):
    """A line of the table."""

    name: str
    strategy: str
    routers: int = 1


CASES = (
    Case("round_robin", "round_robin"),
    Case("weighted_random", "weighted_random"),
    Case("score", "score"),
    Case("score, 2 routers", "score", 2),
    Case("score, 4 routers", "score", 4),
    Case("oracle", "oracle"),
)
SMALL: tuple[Kind, ...] = ("plain", "slow")


def simulate(case: Case, messages: int, seed: int, kinds: Sequence[Kind]) -> Simulation:
    """One run to its end."""
    made = Simulation(case.strategy, messages, seed, routers=case.routers, kinds=kinds)
    made.run()
    return made


def table(title: str, messages: int, seeds: int, only: str, kinds: Sequence[Kind]) -> None:
    """One line for each case: medians over the seeds (least-most)."""
    print(f"## {title}: {messages} messages, {seeds} seeds", flush=True)
    p99s: dict[str, list[float]] = {}
    for case in CASES:
        if only and case.strategy not in {only, "oracle"}:
            continue
        runs = [simulate(case, messages, seed, kinds) for seed in range(seeds)]
        took = [sorted(ms for ms in run.ends if ms >= 0) for run in runs]
        p50 = [one[len(one) // 2] / 1000 for one in took]
        p99 = p99s[case.name] = [one[int(len(one) * 0.99)] / 1000 for one in took]
        told = [
            f"first try {statistics.median(100 * run.first_try / len(run.ends) for run in runs):5.1f} %",
            f"within 30 s {statistics.median(100 * run.in_time / len(run.ends) for run in runs):6.2f} %",
            f"p50 {statistics.median(p50):6.2f} s",
            f"p99 {statistics.median(p99):7.2f} s ({min(p99):.2f}-{max(p99):.2f})",
            f"longest queue {statistics.median(run.worst for run in runs):.0f}",
        ]
        print(f"{case.name:<17} {'  '.join(told)}", flush=True)
    for name, values in p99s.items():
        others = [other for other in ("round_robin", "oracle") if other in p99s and other != name]
        parts = [
            f"{statistics.median(a / b for a, b in zip(values, p99s[other], strict=True)):.2f} of {other}'s"
            for other in others
        ]
        if parts:
            print(f"{name:<17} p99 is {', '.join(parts)}", flush=True)


def main(messages: int = 10_000, seeds: int = 3, only: str = "") -> int:
    """Print the tables."""
    table("20 agents, 4 slow, 2 failing, 1 degrading, 1 dying", messages, seeds, only, TWENTY)
    table("2 agents, 1 slow", messages // 5, seeds, only or "score", SMALL)
    if not only:
        eyes.main(seeds=seeds)
    return 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--messages", type=int, default=50_000)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--only", default="", help="this strategy, beside the oracle")
    told = parser.parse_args()
    sys.exit(main(told.messages, told.seeds, told.only))
