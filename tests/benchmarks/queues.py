"""Agents with queues, in a simulation on the real decision code and a clock of its own: no server.

Agents with one capability and 4 slots each; service times lognormal (median 1 s, sigma 0.6); some are 3 times slower, some fail 20 % of
their runs, one degrades from 1 to 6 times over the run, one dies at half-time. Poisson arrivals at 70 % of the true capacity. Beats every
5 s, seen by the routers within a second; each hand-over tells its router what lies with the agent. A failed run comes again after the
back-off, what a dead one had goes elsewhere after 3 s (unread) or 15 s (running). The oracle knows every queue and every agent's true
speed and takes the one that would end it first; nobody can be better, and no router can know that much.
"""

import heapq
import math
from collections import deque
from collections.abc import Callable, Sequence
from random import Random
from typing import Literal

import msgspec

from reach.delivery.retry import backoff_ms
from reach.envelope.ledger import Leg, LegState
from reach.envelope.records import encode_beat, encode_policy, encode_registration
from reach.envelope.registration import Beat, Capability, Registration, RoutePolicy
from reach.routing.decide import Chooser, decide
from reach.routing.index import CapabilityIndex
from reach.routing.message import Message
from reach.routing.pattern import parse
from reach.routing.steps import Deliver
from reach.routing.strategies import Memory

Kind = Literal["plain", "slow", "failing", "degrading", "dying"]
TWENTY: tuple[Kind, ...] = ("slow",) * 4 + ("failing",) * 2 + ("degrading", "dying") + ("plain",) * 12
SLOTS, SIGMA, LOAD = 4, 0.6, 0.7
PATTERN = parse("capability:work")
BEAT_MS, POLL_MS, NETWORK_MS, LEASE_MS = 5_000, 1_000, 3_000, 15_000
TOTAL_MS = 30_000
WARM_UP = 0.05


class Work(msgspec.Struct):
    """One message on its way."""

    number: int
    came_ms: float
    attempt: int = 0
    tried: tuple[str, ...] = ()


class Server(msgspec.Struct):
    """One agent: what it does, and what it says of itself."""

    name: str
    kind: Kind
    queue: deque[Work] = msgspec.field(default_factory=deque)
    running: dict[int, float] = msgspec.field(default_factory=dict)  # message -> when it ends
    dead: bool = False
    mean_ms: float | None = None
    outcomes: deque[bool] = msgspec.field(default_factory=lambda: deque(maxlen=50))

    def slowness(self, share: float) -> float:
        """How many times longer a run takes than it should, at this part of the whole run."""
        if self.kind == "slow":
            return 3.0
        return 1.0 + 5.0 * share if self.kind == "degrading" else 1.0

    def beat(self) -> bytes:
        """As the SDK makes it."""
        taken = len(self.running)
        rate = sum(self.outcomes) / len(self.outcomes) if self.outcomes else None
        return encode_beat(
            Beat(
                state="busy" if taken >= SLOTS else "ready",
                inflight=taken,
                load=100 * taken / SLOTS,
                success_rate=rate,
                avg_response_ms=self.mean_ms,
            )
        )


class Simulation:
    """One run of one strategy. Moments in ms from 0. `routers`: each with a memory of its own, a message comes to any of them."""

    def __init__(
        self, strategy: str, messages: int, seed: int, *, routers: int = 1, kinds: Sequence[Kind] = TWENTY
    ) -> None:
        self.strategy, self.messages, self.seed = strategy, messages, seed
        self.rng = Random(seed)
        mean_s = math.exp(SIGMA**2 / 2)
        true = sum(SLOTS / mean_s / (3 if kind == "slow" else 1) for kind in kinds)
        self.gap_ms = 1000 / (LOAD * true)
        self.total_ms = messages * self.gap_ms
        self.index = CapabilityIndex()
        self.routers = [
            Chooser(index=self.index, rng=Random(seed + 1 + 7 * number), memory=Memory()) for number in range(routers)
        ]
        if strategy != "oracle":
            self.index.apply("route", PATTERN.text, encode_policy(RoutePolicy(strategy=strategy)))
        self.servers = {f"a{at:02}": Server(f"a{at:02}", kind) for at, kind in enumerate(kinds)}
        self.events: list[tuple[float, int, Callable[[], None]]] = []
        self.count = 0
        self.now = 0.0
        self.ends: list[float] = []
        self.first_try = self.in_time = self.worst = 0
        self.held: dict[int, Work] = {}

    def after(self, ms: float, call: Callable[[], None]) -> None:
        self.count += 1
        heapq.heappush(self.events, (self.now + ms, self.count, call))

    def run(self) -> None:
        for server in self.servers.values():
            declared = Registration(
                agent_id=server.name, instance_id="i", capabilities=(Capability(name="work"),), concurrency=SLOTS
            )
            self.index.apply("agent", server.name, encode_registration(declared)[:-1] + b',"v":1}')
            self.beats(server, first=self.rng.random() * BEAT_MS)
        self.arrive(0)
        for server in self.servers.values():
            if server.kind == "dying":
                self.after(self.total_ms / 2, lambda server=server: self.die(server))  # type: ignore[misc]
        while self.events and len(self.ends) < self.messages:
            self.now, _, call = heapq.heappop(self.events)
            call()

    # ---------------------------------------------------------------- what happens
    def arrive(self, number: int) -> None:
        self.place(Work(number, self.now))
        if number + 1 < self.messages:
            self.after(self.rng.expovariate(1) * self.gap_ms, lambda: self.arrive(number + 1))

    def beats(self, server: Server, first: float = BEAT_MS) -> None:
        if not self.now:
            self.index.beat(server.name, "i", 1, server.beat())
        if server.dead:
            return
        said, at_ms = server.beat(), int(self.now)
        if self.now:
            self.after(self.rng.random() * POLL_MS, lambda: self.hear(server.name, at_ms, said))
        self.after(first, lambda: self.beats(server))

    def hear(self, name: str, at_ms: int, said: bytes) -> None:
        self.index.beat(name, "i", at_ms, said)

    def die(self, server: Server) -> None:
        server.dead = True
        for number in server.running:
            self.after(LEASE_MS, lambda number=number: self.again(self.held[number], server.name))  # type: ignore[misc]
        for work in server.queue:
            self.after(NETWORK_MS, lambda work=work: self.again(work, ""))  # type: ignore[misc]

    def again(self, work: Work, lost_by: str) -> None:
        if lost_by:
            work.attempt += 1
            work.tried += (lost_by,)
        self.place(work)

    # ---------------------------------------------------------------- one message
    def place(self, work: Work) -> None:
        name = self.oracle(work) if self.strategy == "oracle" else self.decided(work)
        if name is None:
            self.after(200, lambda: self.place(work))
            return
        server = self.servers[name]
        server.queue.append(work)
        self.worst = max(self.worst, len(server.queue))
        if server.dead:
            server.queue.remove(work)
            self.after(NETWORK_MS, lambda: self.again(work, ""))
        else:
            self.start(server)

    def decided(self, work: Work) -> str | None:
        now_ms = int(self.now) + 1
        message = Message(
            pattern=PATTERN,
            start_at_ms=int(work.came_ms),
            first_at_ms=1 << 50,
            total_at_ms=1 << 50,
            network_ms=NETWORK_MS,
        )
        leg = Leg(state=LegState.RETURNED, agent="", attempt=work.attempt, tried=work.tried) if work.attempt else None
        by = self.rng.choice(self.routers)
        step = decide(message, leg, by, now_ms).steps[0]
        if not isinstance(step, Deliver):
            return None
        server = self.servers[step.agent]
        # As `route` counts it: what lies there with this one.
        by.memory.note_lies(step.agent, 0, len(server.running) + len(server.queue) + 1, now_ms)
        return step.agent

    def oracle(self, work: Work) -> str:
        share = self.now / self.total_ms
        mean_ms = 1000 * math.exp(SIGMA**2 / 2)

        def end_ms(server: Server) -> float:
            own_ms = mean_ms * server.slowness(share)
            free = sorted(
                [max(end - self.now, 0) for end in server.running.values()] + [0.0] * (SLOTS - len(server.running))
            )
            for _ in server.queue:
                heapq.heapreplace(free, free[0] + own_ms)
            return (free[0] + own_ms) / (0.8 if server.kind == "failing" else 1.0)

        alive = [server for server in self.servers.values() if not server.dead]
        others = [server for server in alive if server.name not in work.tried] or alive
        return min(others, key=lambda server: (end_ms(server), server.name)).name

    def start(self, server: Server) -> None:
        while server.queue and len(server.running) < SLOTS and not server.dead:
            work = server.queue.popleft()
            # The same message has the same work in it, whoever does it and however it is chosen.
            took = 1000 * Random(self.seed * 1_000_003 + work.number * 7 + work.attempt).lognormvariate(0, SIGMA)
            took *= server.slowness(min(self.now / self.total_ms, 1.0))
            server.running[work.number] = self.now + took
            self.held[work.number] = work
            self.after(took, lambda work=work, took=took: self.finish(server, work, took))  # type: ignore[misc]

    def finish(self, server: Server, work: Work, took: float) -> None:
        if server.dead:
            return
        del server.running[work.number]
        server.mean_ms = took if server.mean_ms is None else server.mean_ms + 0.2 * (took - server.mean_ms)
        bad = server.kind == "failing" and self.rng.random() < 0.2
        server.outcomes.append(not bad)
        if bad:
            work.attempt += 1
            work.tried += (server.name,)
            self.after(backoff_ms(work.attempt, self.rng.uniform(0.8, 1.2)), lambda: self.place(work))
        else:
            took_ms = self.now - work.came_ms
            self.in_time += took_ms <= TOTAL_MS
            self.first_try += not work.attempt
            self.ends.append(took_ms if work.number > WARM_UP * self.messages else -1.0)
        self.start(server)
