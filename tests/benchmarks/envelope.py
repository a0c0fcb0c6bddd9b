"""What an envelope costs: decode, check and encode of 600 bytes. Run: python -m tests.benchmarks.envelope."""

import json
import statistics
import sys
import time
from collections.abc import Callable

from reach.envelope import rules
from reach.envelope.codec import decode, encode
from tests.benchmarks.measure import spread
from tests.envelopes import EXAMPLE

AIM_US = 8.0
ROUNDS = 15
CALLS = 4_000
KNOWN = frozenset({"intent.request"})


def envelope_of(size: int) -> bytes:
    """The example with a mailbox and a text in its body that makes it so many bytes long."""
    whole = json.loads(EXAMPLE) | {"reply_to": "intent-parser-01.0123456789abcdef01234567"}
    whole["payload"]["body"]["note"] = ""
    short = len(json.dumps(whole, separators=(",", ":")))
    whole["payload"]["body"]["note"] = "x" * (size - short)
    return json.dumps(whole, separators=(",", ":")).encode()


def cost_us(step: Callable[[], object]) -> list[float]:
    """Microseconds a call, one figure for each round; the first round, which warms up, is left out."""
    figures = []
    for _ in range(ROUNDS + 1):
        started = time.perf_counter_ns()
        for _ in range(CALLS):
            step()
        figures.append((time.perf_counter_ns() - started) / CALLS / 1000)
    return figures[1:]


def main() -> int:
    data = envelope_of(600)
    envelope = decode(data)

    def check() -> None:
        rules.check(envelope, partitions=1, partition=0, known_types=KNOWN)

    def whole() -> bytes:
        read = decode(data)
        rules.check(read, partitions=1, partition=0, known_types=KNOWN)
        return encode(read)

    print(f"envelope of {len(data)} bytes; µs a call: median (min-max) of {ROUNDS} rounds of {CALLS}")
    steps: list[tuple[str, Callable[[], object]]] = [
        ("decode", lambda: decode(data)),
        ("check", check),
        ("encode", lambda: encode(envelope)),
        ("fingerprint", lambda: rules.fingerprint(envelope)),
    ]
    for name, step in steps:
        print(f"  {name:24}{spread(cost_us(step), 2)}")
    figures = cost_us(whole)
    reached = "reached" if statistics.median(figures) <= AIM_US else "missed"
    print(f"  {'decode + check + encode':24}{spread(figures, 2)}   aim {AIM_US:g}: {reached}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
