"""One agent as the router sees it: what it declared, and how each of its instances is."""

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Literal

import msgspec

from reach.envelope.registration import Accept, Beat, Registration, rate_of
from reach.routing.pattern import Term

#: Three missed beats of 5 s: nothing new is sent to an instance that has been silent for so long.
SUSPECT_MS = 15_000
#: Busy agents stay in the draw with this share of their weight.
BUSY_SHARE = 0.2
FOREVER_MS = 1 << 62
NO_LIMITS: Mapping[str, int] = {}
#: Who takes work.
WORKING: frozenset[str] = frozenset({"ready", "busy"})

AgentState = Literal["ready", "busy", "not_ready", "draining", "silent"]
_RANK: dict[AgentState, int] = {"ready": 0, "busy": 1, "not_ready": 2, "draining": 3, "silent": 4}


class Instance(msgspec.Struct, gc=False):
    """One process that serves the agent: its last beat, by the clock of the backend."""

    at_ms: int
    beat: Beat
    data: bytes = b""  # as it came


class History(msgspec.Struct, frozen=True, gc=False):
    """How an agent does, over its live, working instances.

    Attributes:
        at_ms: The newest of the beats that say so.
        oldest_ms: The oldest of them.
        slots: How many messages they can run at once.
        inflight: How many of those are taken.
        busy: All of them are.
        success_rate: The mean; None: nobody has answered anything yet.
        avg_response_ms: The same.
        beside: How many of those that are taken no message of ours takes: they do not become free as messages end.
    """

    at_ms: int
    oldest_ms: int
    slots: int
    inflight: float
    busy: bool
    success_rate: float | None
    avg_response_ms: float | None
    beside: float = 0.0


class Agent:
    """A registered agent. Mutable: beats come and go; a new declaration makes a new Agent that keeps the instances."""

    __slots__ = (
        "_history",
        "_last_ms",
        "_passed",
        "accepts",
        "agent_id",
        "capabilities",
        "declared",
        "groups",
        "instances",
        "max_process_ms",
        "rate",
        "tier",
        "zone",
    )

    def __init__(self, declared: Registration, instances: dict[str, Instance] | None = None) -> None:
        self.declared = declared
        self.agent_id = declared.agent_id
        self.zone = declared.zone
        self.tier = "" if declared.tier is None else str(declared.tier)  # "" = of none
        self.rate = rate_of(declared.rate_limit)
        self.groups = frozenset(declared.groups)
        self.capabilities = tuple(dict.fromkeys([item.name for item in declared.capabilities]))
        longest = {item.name: item.max_process_ms for item in declared.capabilities if item.max_process_ms}
        self.max_process_ms: Mapping[str, int] = longest or NO_LIMITS
        self.accepts = _merge(declared.accepts)
        self.instances: dict[str, Instance] = {} if instances is None else instances
        self._history: History | None = None
        self._passed: dict[tuple[str, int], tuple[int, int]] = {}
        self._last_ms = max((one.at_ms for one in self.instances.values()), default=0)

    def repeats(self, instance_id: str, at_ms: int, data: bytes) -> bool:
        """Whether a beat says nothing new, which is then noted: the instance is as it was, and lives."""
        known = self.instances.get(instance_id)
        if known is None or known.data != data:
            return False
        if at_ms > known.at_ms:
            known.at_ms, self._last_ms, self._history = at_ms, max(self._last_ms, at_ms), None
        return True

    def beat(self, instance_id: str, at_ms: int, beat: Beat, data: bytes = b"") -> None:
        """Note a beat; one that is older than what is known changes nothing."""
        known = self.instances.get(instance_id)
        if known is None:
            self.instances[instance_id] = Instance(at_ms, beat, data)
        elif at_ms >= known.at_ms:
            known.at_ms, known.beat, known.data = at_ms, beat, data
        else:
            return
        self._history = None
        self._last_ms = max(self._last_ms, at_ms)
        self._passed.clear()

    def forget(self, *instance_ids: str) -> None:
        """They are gone."""
        for instance_id in instance_ids:
            self.instances.pop(instance_id, None)
        self._history = None
        self._last_ms = max((one.at_ms for one in self.instances.values()), default=0)
        self._passed.clear()

    # These are asked for every candidate of every message: plain loops, since most agents have one instance.
    def last_beat_ms(self) -> int:
        """The last sign of any instance; 0 when there was none."""
        return self._last_ms

    def alive(self, since_ms: int) -> list[Instance]:
        """The instances that have beaten since then."""
        return [instance for instance in self.instances.values() if instance.at_ms >= since_ms]

    def state(self, since_ms: int) -> AgentState:
        """The best state of any live instance (they share one inbox, so one that is ready is enough); `silent` when none lives."""
        best: AgentState = "silent"
        for instance in self.instances.values():
            if instance.at_ms >= since_ms and _RANK[instance.beat.state] < _RANK[best]:
                best = instance.beat.state
        return best

    def note_passed(self, env: str, partition: int, since_ms: int) -> None:
        """It has been found to belong to the env, to live, to take work and to read this partition."""
        until_ms = min((one.at_ms for one in self.instances.values() if one.at_ms >= since_ms), default=0)
        self._passed[env, partition] = (since_ms, until_ms)

    def has_passed(self, env: str, partition: int, since_ms: int) -> bool:
        """Whether that was found, and no instance has beaten, gone, or become silent since then."""
        known = self._passed.get((env, partition))
        return known is not None and known[0] <= since_ms <= known[1]

    def reason(self, since_ms: int) -> str:
        """Why it is not ready, in the words of a live instance; "" when none gave any."""
        return next((one.beat.reason for one in self.alive(since_ms) if one.beat.reason), "")

    def free_slots(self, since_ms: int) -> int:
        """How many more messages its live, working instances can start now, as of their last beats."""
        return sum(
            max(self.declared.concurrency - max(instance.beat.inflight, 0), 0)
            for instance in self.alive(since_ms)
            if instance.beat.state in WORKING
        )

    def working(self) -> list[Beat]:
        """What those of its instances say, silent or not, that take work."""
        return [one.beat for one in self.instances.values() if one.beat.state in WORKING]

    def history(self, since_ms: int) -> History:
        """How it does, as its instances have last told. The same until the next beat, or until one of those has become silent."""
        known = self._history
        if known is None or known.oldest_ms < since_ms:
            known = self._history = self._summed(since_ms)
        return known

    def _summed(self, since_ms: int) -> History:
        newest_ms, oldest_ms, slots, inflight, beside, busy = 0, FOREVER_MS, 0, 0.0, 0.0, True
        rates: list[float] = []
        times: list[float] = []
        for instance in self.instances.values():
            beat = instance.beat
            if instance.at_ms < since_ms or beat.state not in WORKING:
                continue
            newest_ms, oldest_ms = max(newest_ms, instance.at_ms), min(oldest_ms, instance.at_ms)
            busy = busy and beat.state == "busy"
            slots += self.declared.concurrency
            taken = self.declared.concurrency * min(max(beat.load, 0.0), 100.0) / 100
            inflight += taken
            beside += max(taken - max(beat.inflight, 0), 0.0)
            if beat.success_rate is not None:
                rates.append(beat.success_rate)
            if beat.avg_response_ms is not None:
                times.append(max(beat.avg_response_ms, 0.0))
        return History(newest_ms, oldest_ms, max(slots, 1), inflight, busy, _mean(rates), _mean(times), beside)

    def context_left(self, since_ms: int) -> int | None:
        """The most tokens that a live instance says it has left; None: one of them does not say."""
        told = [instance.beat.context_left for instance in self.alive(since_ms)]
        known = [left for left in told if left is not None]
        return max(known) if known and len(known) == len(told) else None

    def can_begin(self, since_ms: int, within_ms: int) -> int:
        """How many messages its live, working instances can begin within so long: one for each slot, or more by their mean times."""
        rounds = 0
        for instance in self.alive(since_ms):
            if instance.beat.state in WORKING:
                mean_ms = instance.beat.avg_response_ms
                rounds += 1 if mean_ms is None else max(round(within_ms / max(mean_ms, 1.0)), 1)
        return self.declared.concurrency * rounds

    def partitions(self, since_ms: int) -> int:
        """How many partitions its instances read; the latest beat knows better than the registration."""
        most = 0
        for instance in self.instances.values():
            told = instance.beat.partitions
            if told is not None and told > most and instance.at_ms >= since_ms:
                most = told
        return most or self.declared.partitions

    def longest_ms(self, terms: Iterable[Term]) -> int:
        """How long it may work at most on one of these capabilities, as declared; 0 = it declares nothing."""
        asked = [ms for name, ms in self.max_process_ms.items() if any(term.matches(name) for term in terms)]
        return max(asked, default=self.declared.max_process_ms or 0)


def _mean(known: list[float]) -> float | None:
    return sum(known) / len(known) if known else None


@lru_cache(maxsize=1_024)  # most declare the same
def _merge(accepts: tuple[Accept, ...]) -> Mapping[str, frozenset[str] | None]:
    """Type -> the schemas that are taken; None means any."""
    merged: dict[str, frozenset[str] | None] = {}
    for accept in accepts:
        known = merged.get(accept.type, frozenset())
        merged[accept.type] = None if known is None or not accept.schemas else known | frozenset(accept.schemas)
    return merged
