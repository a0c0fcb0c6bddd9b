"""`make bench`: every benchmark in turn, or those that are named (`make bench ARGS="hops spans"`).

Figures are medians with their range; the machine and the versions stand above them.
"""

import argparse
import platform
import sys
from collections.abc import Callable
from functools import partial
from importlib.metadata import version

from reach.backend.private_server import find_binary
from tests.benchmarks import cancels, choosing, envelope, events, hops, intents, metrics, paths, scale, spans

PARTS: dict[str, Callable[[], object]] = {
    "envelope": envelope.main,
    "hops": hops.main,
    "metrics": metrics.main,
    "spans": spans.main,
    "events": events.main,
    "intents": intents.main,
    "choosing": partial(choosing.main, messages=10_000, seeds=2),
    "cancels": cancels.main,
    "paths": partial(paths.main, rounds=3, count=5_000),
    "scale": partial(scale.main, rounds=3),
}


def main(names: list[str]) -> int:
    """Run them in the order of PARTS."""
    binary = find_binary()
    print(
        f"# Python {platform.python_version()}, {binary.engine} {binary.path}, redis-py {version('redis')}", flush=True
    )
    for name, run in PARTS.items():
        if not names or name in names:
            run()
    return 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"one of {', '.join(PARTS)}; none: all")
    told = parser.parse_args()
    unknown = sorted(set(told.parts) - PARTS.keys())
    if unknown:
        parser.error(f"no benchmark is called {', '.join(unknown)}; there are {', '.join(PARTS)}")
    sys.exit(main(told.parts))
