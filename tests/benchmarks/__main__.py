"""`make bench`: every benchmark in turn. Figures are medians with their range; the machine and the versions stand above them."""

import platform
import sys
from importlib.metadata import version

from reach.backend.private_server import find_binary
from tests.benchmarks import cancels, choosing, envelope, events, hops, intents, metrics, paths, scale, spans


def main() -> int:
    binary = find_binary()
    print(
        f"# Python {platform.python_version()}, {binary.engine} {binary.path}, redis-py {version('redis')}", flush=True
    )
    envelope.main()
    hops.main()
    metrics.main()
    spans.main()
    events.main(count=100_000)
    intents.main()
    choosing.main(messages=10_000, seeds=2)
    cancels.main()
    paths.main(rounds=3, count=5_000)
    scale.main(rounds=3)
    return 0


if __name__ == "__main__":
    sys.exit(main())
