"""What is asked of each capability: counted by every router, shared every few seconds, and turned into how many instances are wanted.

Each router tells the counts of its last 30 s. One of them at a time, by a lock, adds them up with what the agents' beats and inboxes say,
and tells what is wanted: the same for everybody who asks. Counts of a router that has died are left out after 15 s.
"""

from collections import Counter, deque
from collections.abc import Iterable, Mapping
from typing import Protocol

import msgspec

from reach import ids
from reach.backend.port import Backend
from reach.backend.steps import RouteResult, Send
from reach.clock import Clock
from reach.delivery.judge import Case
from reach.errors import EnvelopeError
from reach.routing.agents import Agent
from reach.routing.index import CapabilityIndex
from reach.routing.pattern import parse
from reach.routing.steps import Delay
from reach.routing.wanted import DOWN_AFTER_MS, RESULT, Count, Demand, Line, Result, needed, read_result, steady
from reach.service import Report
from reach.tracing.hops import HopRecorder

PACE_MS = 5_000
WINDOW_MS = 30_000
#: Whoever has told nothing for three rounds is gone.
STALE_MS = 3 * PACE_MS
LOCK_MS = 2 * PACE_MS + 1_000
#: A sender who makes up ever new capabilities must not fill the memory: the ones asked for most are counted.
MAX_CAPABILITIES = 1_000
#: So many agents without a free slot have their inboxes looked at; of more the first by name.
MAX_LOOKED_AT = 1_000


class Counted(msgspec.Struct, frozen=True):
    """What one router has seen: within `window_ms` so many messages came, and so many ms of waiting for somebody began."""

    at_ms: Count
    window_ms: Count
    arrivals: dict[str, Count]
    waits_ms: dict[str, Count]


class _Moment(Protocol):
    def __call__(self) -> int: ...


_counted = msgspec.json.Decoder(Counted).decode
_encode = msgspec.json.Encoder().encode


class DemandCounter:
    """What one router sees. For one event loop."""

    def __init__(self, index: CapabilityIndex) -> None:
        self._index = index
        self._arrivals: Counter[str] = Counter()
        self._waits_ms: Counter[str] = Counter()

    def routed(self, case: Case, result: RouteResult) -> None:
        """A decision has been applied: what came for the first time is an arrival, what found nobody waits until it is looked at again."""
        if result.known or case.envelope is None or case.choice is None:
            return
        why = case.choice.why
        waits_ms = sum(step.wait_ms for step in case.choice.steps if isinstance(step, Delay)) if why.counts else 0
        if not waits_ms and not isinstance(case.decision, Send):
            return
        for capability in self._asked(case.envelope.target.pattern):
            if capability not in self._arrivals and len(self._arrivals) >= MAX_CAPABILITIES:
                continue
            self._arrivals[capability] += len(case.choice.steps) if isinstance(case.decision, Send) else 0
            self._waits_ms[capability] += waits_ms

    def taken(self) -> tuple[Counter[str], Counter[str]]:
        """Arrivals and waits since the last time."""
        counts = self._arrivals, self._waits_ms
        self._arrivals, self._waits_ms = Counter(), Counter()
        return counts

    def _asked(self, text: str) -> list[str]:
        """The capabilities that a pattern names; an agent or a group is asked for no capability, and a prefix for any."""
        try:
            pattern = parse(text)
        except EnvelopeError:
            return []
        return [term.name for term in self._index.terms_of(pattern) if not term.prefix]


class DemandService:
    """A service of every router: tells its counts, and, one at a time, what all of them mean."""

    name = "demand"
    interval_ms = PACE_MS

    def __init__(
        self,
        backend: Backend,
        counter: DemandCounter,
        index: CapabilityIndex,
        hops: HopRecorder,
        owner: str,
        *,
        now_ms: _Moment,
        clock: Clock,
    ) -> None:
        self._backend, self._counter, self._index, self._hops = backend, counter, index, hops
        self._owner, self._now_ms, self._clock = owner, now_ms, clock
        self._rounds: deque[tuple[int, Counter[str], Counter[str]]] = deque()
        self._began_ms = clock.monotonic_ms()

    async def run_once(self) -> Report:
        """Tell, and reckon for all where it is this router's turn. Cancelling is safe: what was not told is told with the next round."""
        now_ms = self._now_ms()
        if not now_ms:  # nobody knows the time of the backend yet
            return {}
        await self._backend.tell_demand(self._owner, _encode(self._own(now_ms)))
        if not await self._backend.lock(self.name, self._owner, LOCK_MS):
            return {}
        told = await self._backend.read_demand()
        before = read_result(told.get(RESULT, b""))
        counted, stale = _read(told, now_ms)
        result = await self._reckon(counted, before, now_ms)
        await self._backend.tell_demand(RESULT, _encode(result), stale)
        changed = self._tell(result, before)
        return {"changed": changed} if changed else {}

    def _own(self, now_ms: int) -> Counted:
        """The counts of the last 30 s."""
        at_ms = self._clock.monotonic_ms()
        self._rounds.append((at_ms, *self._counter.taken()))
        while len(self._rounds) > 1 and at_ms - self._rounds[0][0] >= WINDOW_MS:
            self._began_ms = self._rounds.popleft()[0]
        arrivals: Counter[str] = Counter()
        waits_ms: Counter[str] = Counter()
        for _, came, waited in self._rounds:
            arrivals.update(came)
            waits_ms.update(waited)
        window_ms = max(at_ms - self._began_ms, PACE_MS)
        return Counted(
            now_ms,
            window_ms,
            dict(arrivals.most_common(MAX_CAPABILITIES)),
            dict(waits_ms.most_common(MAX_CAPABILITIES)),
        )

    async def _reckon(self, counted: list[Counted], before: Result, now_ms: int) -> Result:
        arrivals: Counter[str] = Counter()
        waiting: Counter[str] = Counter()
        for one in counted:
            for name, count in one.arrivals.items():
                arrivals[name] += count * 1_000 / one.window_ms  # type: ignore[assignment]
            for name, ms in one.waits_ms.items():
                waiting[name] += ms / one.window_ms  # type: ignore[assignment]
        held = {line.capability: line.wanted for line in before.lines}
        kept = (name for name, wanted in held.items() if wanted.instances)
        asked = dict.fromkeys((*(name for name, _ in arrivals.most_common()), *waiting, *kept))
        names = [name for name in asked if ids.is_token(name)][:MAX_CAPABILITIES]  # others have told them
        since_ms = self._index.alive_since_ms(now_ms)
        offers = {
            name: [one for one in self._index.match(parse(f"capability:{name}")) if one.alive(since_ms)]
            for name in names
        }
        lying = await self._lying(offers.values(), since_ms)
        lines = []
        for name in sorted(names):
            demand = demand_of(name, offers[name], lying, arrivals, waiting[name], since_ms)
            wanted = steady(
                held.get(name), needed(demand), now_ms, self._index.setting("capacity_down_ms", DOWN_AFTER_MS)
            )
            if wanted.instances or needed(demand):
                lines.append(Line(name, demand, wanted))
        return Result(now_ms, tuple(lines))

    async def _lying(self, offers: Iterable[list[Agent]], since_ms: int) -> dict[str, int]:
        """What lies unread with agents that have no free slot: with others next to nothing does."""
        full = sorted({one.agent_id: one for found in offers for one in found if one.free_slots(since_ms) <= 0}.items())
        full = full[:MAX_LOOKED_AT]
        counts = await self._backend.lying([agent_id for agent_id, _ in full]) if full else []
        return {
            agent_id: max(count - round(agent.history(since_ms).inflight), 0)
            for (agent_id, agent), count in zip(full, counts, strict=True)
        }

    def _tell(self, result: Result, before: Result) -> int:
        was = {line.capability: line.wanted.instances for line in before.lines}
        now = {line.capability: line for line in result.lines}
        changed = 0
        for name in sorted(was.keys() | now.keys()):
            line = now.get(name)
            wanted = line.wanted.instances if line is not None else 0
            if wanted != was.get(name, 0):
                changed += 1
                there = line.demand.instances if line is not None else 0
                counts = {"wanted": wanted, "was": was.get(name, 0), "instances": there}
                self._hops.add(0, "capacity.wanted", "", pattern=f"capability:{name}", counts=counts)
        return changed


def demand_of(
    name: str,
    offering: list[Agent],
    lying: Mapping[str, int],
    arrivals: Mapping[str, float],
    waiting: float,
    since_ms: int,
) -> Demand:
    """What is asked of one capability. What lies with an agent that offers several is theirs in proportion to what comes for each."""
    backlog = slots = inflight = 0.0
    instances = 0
    means: list[float] = []
    for agent in offering:
        history = agent.history(since_ms)
        share = _share(name, agent, arrivals)
        backlog += lying.get(agent.agent_id, 0) * share
        inflight += history.inflight * share
        instances += len(agent.alive(since_ms))
        slots += agent.declared.concurrency * len(agent.alive(since_ms))
        if history.avg_response_ms is not None:
            means.append(history.avg_response_ms / 1_000)
    return Demand(
        arrivals_per_s=round(arrivals.get(name, 0.0), 3),
        backlog=round(backlog),
        waiting=round(waiting, 3),
        inflight=round(inflight, 2),
        agents=len(offering),
        instances=instances,
        slots=round(slots),
        mean_s=round(sum(means) / len(means), 4) if means else None,
    )


def _read(told: Mapping[str, bytes], now_ms: int) -> tuple[list[Counted], list[str]]:
    """The counts of the routers that live, and the names of the others."""
    counted, stale = [], []
    for name, data in told.items():
        if name == RESULT:
            continue
        try:
            one = _counted(data)
        except (msgspec.DecodeError, UnicodeDecodeError):
            stale.append(name)
            continue
        if abs(now_ms - one.at_ms) <= STALE_MS and one.window_ms > 0:
            counted.append(one)
        else:
            stale.append(name)
    return counted, stale


def _share(name: str, agent: Agent, arrivals: Mapping[str, float]) -> float:
    came = sum(arrivals.get(one, 0.0) for one in agent.capabilities)
    return arrivals.get(name, 0.0) / came if came else 1 / max(len(agent.capabilities), 1)
