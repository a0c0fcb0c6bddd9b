"""Where many answer a pattern, one is drawn in proportion to what it weighs, without weighing the others (decision 0022).

All are kept in buckets by the most that each can weigh until its next beat, one bucket for every power of two. A draw takes a bucket by
what lies in it, one of those that lie there, and keeps it with the probability that it weighs so much now: the same shares as if all had
been weighed, in as many steps as it takes until one is kept. A beat moves an agent at most to another bucket.
"""

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate
from math import frexp, ldexp
from random import Random
from statistics import median

from reach.envelope.registration import MAX_AMOUNT
from reach.routing.agents import Agent
from reach.routing.asked import Asked, answers
from reach.routing.pattern import Pattern
from reach.routing.strategies.weighing import UNKNOWN, Usual, Weighing

#: Up to so many are all asked and all told (a hop record carries as many); a pool is for more.
SMALL = 20
#: So many places are kept over all pools; then the oldest goes, and is made anew when it is asked for.
MAX_PLACES = 500_000
#: The median of the peers is taken from so many of them, and holds so long.
PEERS, USUAL_MS = 101, 1_000

Bucket = tuple[bool, int]


class Pool:
    """All who answer one pattern, by the most that each can weigh."""

    def __init__(
        self, agents: Iterable[Agent], weighing: Weighing, weights: Mapping[str, float], of: tuple[str, str] = ("", "")
    ) -> None:
        """`weights`: those of the policy, which win over what an agent declares. `of`: pattern and strategy."""
        self.weighing, self.weights, self.of = weighing, weights, of
        self.agents: dict[str, Agent] = {}
        self._usual, self._usual_at_ms = UNKNOWN, 0
        self._buckets: dict[Bucket, list[str]] = {}
        self._places: dict[str, tuple[Bucket, int]] = {}
        self._order: list[tuple[Bucket, float]] | None = None
        self._edges: list[float] = []
        for agent in agents:
            self.put(agent)

    def __len__(self) -> int:
        """How many there are."""
        return len(self.agents)

    def put(self, agent: Agent) -> None:
        """It answers the pattern, or has beaten, or has declared something else."""
        self.agents[agent.agent_id] = agent
        bucket = self._bucket_of(agent)
        place = self._places.get(agent.agent_id)
        if place is not None and place[0] == bucket:
            return
        self._lift(agent.agent_id)
        if bucket is not None:
            lying = self._buckets.setdefault(bucket, [])
            self._places[agent.agent_id] = (bucket, len(lying))
            lying.append(agent.agent_id)
            self._order = None

    def drop(self, agent_id: str) -> None:
        """It answers the pattern no more."""
        del self.agents[agent_id]
        self._lift(agent_id)

    def usual(self, now_ms: int, rng: Random) -> Usual:
        """What stands in for the history of newcomers: the median of their peers, of some of them where they are many."""
        if abs(now_ms - self._usual_at_ms) >= USUAL_MS:
            self._usual, self._usual_at_ms = self._median(rng), now_ms
            self._order = None
        return self._usual

    def draw(self, rng: Random) -> tuple[Agent, float] | None:
        """Somebody, in proportion to the most that each can weigh, and that, rounded up. None: nobody weighs anything."""
        if self._order is None:
            self._arrange()
        order, edges = self._order or (), self._edges
        if not edges:
            return None
        point = rng.random() * edges[-1]
        at = min(bisect_right(edges, point), len(edges) - 1)
        bucket, most = order[at]
        lying = self._buckets[bucket]
        number = int((point - (edges[at - 1] if at else 0.0)) / most)
        return self.agents[lying[min(number, len(lying) - 1)]], most

    # ---------------------------------------------------------------- inside
    def _arrange(self) -> None:
        scale = self.weighing.most_of_usual(self._usual)
        self._order = [
            (bucket, ldexp(1.0, bucket[1]) * (scale if bucket[0] else 1.0))
            for bucket, lying in self._buckets.items()
            if lying
        ]
        self._edges = list(accumulate(len(self._buckets[bucket]) * most for bucket, most in self._order))

    def _bucket_of(self, agent: Agent) -> Bucket | None:
        """None: it weighs nothing, or none of its instances takes work."""
        working = agent.working()
        own = self.weights.get(agent.agent_id, agent.declared.weight)
        if not working or not own > 0:
            return None
        most = min(own, MAX_AMOUNT) * self.weighing.most(working)
        is_new = all(beat.success_rate is None and beat.avg_response_ms is None for beat in working)
        return is_new, frexp(most)[1]

    def _lift(self, agent_id: str) -> None:
        """Out of its bucket; the last one there takes its place."""
        place = self._places.pop(agent_id, None)
        if place is None:
            return
        bucket, at = place
        lying = self._buckets[bucket]
        last = lying.pop()
        if last != agent_id:
            lying[at] = last
            self._places[last] = (bucket, at)
        if not lying:
            del self._buckets[bucket]
        self._order = None

    def _median(self, rng: Random) -> Usual:
        success, answers_ms = [], []
        for agent_id in self._peers(rng):
            history = self.agents[agent_id].history(0)
            if history.success_rate is not None:
                success.append(history.success_rate)
            if history.avg_response_ms is not None:
                answers_ms.append(history.avg_response_ms)
        return Usual(
            median(success) if success else UNKNOWN.success_rate,
            median(answers_ms) if answers_ms else UNKNOWN.avg_response_ms,
        )

    def _peers(self, rng: Random) -> list[str]:
        known = [lying for bucket, lying in self._buckets.items() if not bucket[0]]
        ends = list(accumulate(map(len, known)))
        if not ends or ends[-1] <= PEERS:
            return [agent_id for lying in known for agent_id in lying]
        numbers = [int(rng.random() * ends[-1]) for _ in range(PEERS)]
        return [known[at][number - ends[at]] for number in numbers for at in (bisect_right(ends, number),)]


class Pools:
    """The pools of an index, one for each pattern that many answer and strategy that draws from it."""

    def __init__(self) -> None:
        self._pools: dict[str, dict[str, Pool]] = {}
        self._patterns: dict[str, Pattern] = {}
        self._asked = Asked()
        self._of_agent: dict[str, list[Pool]] = {}
        self._places = 0

    def get(self, pattern: Pattern, strategy: str, weights: Mapping[str, float]) -> Pool | None:
        """The pool that is there, if it is for these weights."""
        pool = self._pools.get(pattern.text, {}).get(strategy)
        return pool if pool is not None and pool.weights == weights else None

    def make(
        self,
        pattern: Pattern,
        strategy: str,
        weighing: Weighing,
        weights: Mapping[str, float],
        matched: Sequence[Agent],
    ) -> Pool:
        """One for those who answer now."""
        self._discard(self._pools.get(pattern.text, {}).get(strategy))
        while self._pools and self._places + len(matched) > MAX_PLACES:
            self._discard(*next(iter(self._pools.values())).values())
        pool = Pool(matched, weighing, weights, of=(pattern.text, strategy))
        self._pools.setdefault(pattern.text, {})[strategy] = pool
        self._places += len(pool)
        self._patterns[pattern.text] = pattern
        self._asked.note(pattern)
        for agent in matched:
            self._of_agent.setdefault(agent.agent_id, []).append(pool)
        return pool

    def hear(self, agent: Agent) -> None:
        """It has beaten, or an instance of it has gone."""
        for pool in self._of_agent.get(agent.agent_id, ()):
            pool.put(agent)

    def join(self, agent: Agent) -> None:
        """It has registered."""
        for pattern in self._asked.touched_by(agent):
            if answers(agent, pattern):
                for pool in self._pools[pattern.text].values():
                    pool.put(agent)
                    self._places += 1
                    self._of_agent.setdefault(agent.agent_id, []).append(pool)

    def leave(self, agent_id: str) -> None:
        """It is gone, or declares something else from now on."""
        for pool in self._of_agent.pop(agent_id, ()):
            self._places -= 1
            pool.drop(agent_id)
            if len(pool) <= SMALL:  # so few are all asked
                self._discard(pool)

    def _discard(self, *pools: Pool | None) -> None:
        for pool in pools:
            if pool is None:
                continue
            text, strategy = pool.of
            del self._pools[text][strategy]
            if not self._pools[text]:
                del self._pools[text]
                self._asked.forget(self._patterns.pop(text))
            self._places -= len(pool)
            for agent_id in pool.agents:
                kept = self._of_agent[agent_id]
                kept.remove(pool)
                if not kept:
                    del self._of_agent[agent_id]
