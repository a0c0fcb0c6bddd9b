"""Who looks at a question again, who keeps what, and how exact shares are. A part of tests/benchmarks/choosing.py.

Fresh eyes: a first try has failed; with probability 0.6 for a reason that is bound to this agent and conversation, so that the same one
fails again; anybody else fails with 0.25. The question comes once more, as a new message of the conversation, to any of the routers.
"""

import statistics
from collections import Counter
from collections.abc import Sequence
from random import Random

from reach.envelope.records import encode_beat, encode_policy, encode_registration
from reach.envelope.registration import Beat, Capability, Registration, RoutePolicy
from reach.routing.decide import Chooser, decide
from reach.routing.index import CapabilityIndex
from reach.routing.message import Message
from reach.routing.pattern import parse
from reach.routing.strategies import Memory

PATTERN = parse("capability:work")
BOUND, ELSEWHERE = 0.6, 0.25
AGENTS, CONVERSATIONS, SOURCES = 8, 5_000, 50
KEYS, FLEET = 10_000, 20
SHARES = {"small": 9.0, "large": 1.0}


class Fleet:
    """Agents that are all alike, and routers with a memory of their own."""

    def __init__(self, policy: RoutePolicy, names: Sequence[str], *, routers: int = 1, seed: int = 0) -> None:
        self.index = CapabilityIndex()
        for name in names:
            self.join(name)
        self.index.apply("route", PATTERN.text, encode_policy(policy))
        self.routers = [
            Chooser(index=self.index, rng=Random(seed * 100 + number), memory=Memory()) for number in range(routers)
        ]

    def join(self, name: str) -> None:
        tier = name.partition("-")[0]
        declared = Registration(
            agent_id=name, instance_id="i", capabilities=(Capability(name="work"),), concurrency=1_000, tier=tier
        )
        self.index.apply("agent", name, encode_registration(declared)[:-1] + b',"v":1}')
        self.index.beat(name, "i", 1_000, encode_beat(Beat(success_rate=1.0, avg_response_ms=1_000)))

    def choose(self, by: Chooser, conversation: str, source: str = "") -> str:
        """Who gets it. All routers hear of it, as they do by Redis."""
        asks = Message(
            pattern=PATTERN,
            source=source,
            conversation=conversation,
            start_at_ms=1_000,
            first_at_ms=1 << 50,
            total_at_ms=1 << 50,
            network_ms=3_000,
        )
        (agent_id,) = decide(asks, None, by, 1_000).why.chosen
        for router in self.routers:
            router.memory.meetings.note(source, conversation, agent_id, 1_000)
        return agent_id


def second_tries(strategy: str, seed: int) -> float:
    """How many of a hundred second tries succeed."""
    rng = Random(seed)
    names = [f"a-{number}" for number in range(AGENTS)]
    fleet = Fleet(RoutePolicy(strategy=strategy), names, routers=2, seed=seed)
    good = 0
    for number in range(CONVERSATIONS):
        source, conversation = f"s{number % SOURCES}", f"talk {number}"
        first = fleet.choose(rng.choice(fleet.routers), conversation, source)
        second = fleet.choose(rng.choice(fleet.routers), conversation, source)
        good += rng.random() >= (BOUND if second == first else ELSEWHERE)
    return 100 * good / CONVERSATIONS


def moved(seed: int) -> tuple[float, int]:
    """When one of them leaves: which part of all keys has another agent, and how many of those that it did not have."""
    names = [f"a-{number}" for number in range(FLEET)]
    fleet = Fleet(RoutePolicy(strategy="sticky"), names, seed=seed)
    keys = [f"{seed} {number}" for number in range(KEYS)]
    before = [fleet.choose(fleet.routers[0], key) for key in keys]
    gone = names[seed % FLEET]
    fleet.index.apply("gone", gone, b"")
    after = [fleet.choose(fleet.routers[0], key) for key in keys]
    changed = [old for old, new in zip(before, after, strict=True) if old != new]
    return len(changed) / KEYS, sum(old != gone for old in changed)


def apart(routers: int, seed: int) -> float:
    """By how many hundredths of all messages the small tier has another part than its share."""
    names = [f"{tier}-{number}" for tier in SHARES for number in range(3)]
    policy = RoutePolicy(strategy="tiered", tiers=tuple(SHARES), weights=SHARES)
    fleet, rng = Fleet(policy, names, routers=routers, seed=seed), Random(seed)
    had = Counter(fleet.choose(rng.choice(fleet.routers), str(n)).partition("-")[0] for n in range(KEYS))
    return 100 * abs(had["small"] / KEYS - SHARES["small"] / sum(SHARES.values()))


def main(seeds: int = 3) -> None:
    """Print the figures."""
    print(f"## A second try: {CONVERSATIONS} conversations, {AGENTS} agents, 2 routers, {seeds} seeds", flush=True)
    for strategy in ("sticky", "score", "fresh_eyes"):
        good = [second_tries(strategy, seed) for seed in range(seeds)]
        print(f"{strategy:<17} succeeds {statistics.median(good):5.1f} % ({min(good):.1f}-{max(good):.1f})", flush=True)
    found = [moved(seed) for seed in range(seeds)]
    shares, others = [share for share, _ in found], sum(count for _, count in found)
    print(f"## sticky, one of {FLEET} leaves: {KEYS} keys, {seeds} seeds", flush=True)
    print(
        f"moved {100 * statistics.median(shares):.2f} % ({100 * min(shares):.2f}-{100 * max(shares):.2f}), all that it had; "
        f"of others {others}",
        flush=True,
    )
    print(f"## tiered, 90 % and 10 %: {KEYS} messages, {seeds} seeds", flush=True)
    for routers in (1, 2, 4):
        off = max(apart(routers, seed) for seed in range(seeds))
        print(f"{routers} routers: at most {off:.3f} % from its share", flush=True)
