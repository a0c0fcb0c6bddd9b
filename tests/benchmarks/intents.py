"""How often `intent:<text>` finds what is meant, and how long it takes. Run: python -m tests.benchmarks.intents [--data DIR].

Without --data: 30 capabilities and 150 requests in Chinese, written for this. With it: a folder with capabilities.jsonl ({capability,
description, examples}) and queries_dev.jsonl ({text, capability}), such as BANKING77 (PolyAI, CC BY 4.0). Those are split in two by a
checksum of their text: on one half the weights in reach/routing/intents.py were chosen, the other half is what counts. `--semantic on`:
with the model of the extra beside the words; times are then with the text's vector in memory and, once, with making it.
"""

import argparse
import json
import sys
import time
import zlib
from pathlib import Path
from typing import Any, NamedTuple

from reach.registry.semantics import open_model
from reach.routing.intents import Intents, said_of
from reach.routing.meanings import Meanings
from tests.benchmarks.measure import spread

CHINESE = Path(__file__).parent / "data" / "chinese_intents.jsonl"
ROUNDS = 5


class Query(NamedTuple):
    """What somebody asked, and which capability was meant."""

    text: str
    capability: str


def rows(path: Path) -> list[dict[str, Any]]:
    """One object for each line."""
    return [json.loads(line) for line in path.read_text().splitlines()]


def ranker(capabilities: list[dict[str, Any]], model: Meanings | None = None) -> Intents:
    """All of them, as an index would feed them."""
    said = {row["capability"]: list(said_of(row["description"], row["examples"])) for row in capabilities}
    made = Intents(said.__getitem__, model)
    for name in said:
        made.changed(name)
    made.read()
    if model is not None:
        model.read_all()
    return made


def report(name: str, intents: Intents, queries: list[Query]) -> None:
    """One line: found first, found among three, no answer, time (the first round makes what is remembered of words and texts)."""
    started = time.perf_counter_ns()
    found = [[one.capability for one in intents.rank(query.text)] for query in queries]
    once = (time.perf_counter_ns() - started) / len(queries) / 1000
    first = sum(names[:1] == [query.capability] for names, query in zip(found, queries, strict=True))
    three = sum(query.capability in names for names, query in zip(found, queries, strict=True))
    took = []
    for _ in range(ROUNDS):
        started = time.perf_counter_ns()
        for query in queries:
            intents.rank(query.text)
        took.append((time.perf_counter_ns() - started) / len(queries) / 1000)
    count = len(queries)
    print(
        f"{name:<34} {count:>5} queries  top-1 {100 * first / count:5.1f} %  top-3 {100 * three / count:5.1f} %"
        f"  no answer {100 * found.count([]) / count:4.1f} %  first time {once:.0f} us, then {spread(took)} us",
        flush=True,
    )


def main(data: Path | None = None, semantic: str = "off") -> int:
    """Print the figures; they are no test: what must hold stands in tests/unit/routing/test_intents.py."""
    chinese = rows(CHINESE)
    asked = [Query(text, row["capability"]) for row in chinese for text in row["requests"]]
    report("Chinese, 30 capabilities", ranker(chinese, open_model(semantic)), asked)
    if data is not None:
        capabilities = rows(data / "capabilities.jsonl")
        queries = [Query(row["text"], row["capability"]) for row in rows(data / "queries_dev.jsonl")]
        for half, what in enumerate(("chosen on", "reported")):
            intents = ranker(capabilities, open_model(semantic))
            part = [query for query in queries if zlib.crc32(query.text.encode()) % 2 == half]
            report(f"{data.name}, {len(intents)} capabilities, {what}", intents, part)
    return 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--data", type=Path, help="a folder with capabilities.jsonl and queries_dev.jsonl")
    parser.add_argument("--semantic", default="off", help="off, on, or module:function")
    told = parser.parse_args()
    sys.exit(main(told.data, told.semantic))
