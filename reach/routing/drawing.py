"""One of many who fit, in so many steps however many there are: drawn first, and only then asked. The same filters, the same shares.

Whoever is drawn and refused is left out, and somebody else is drawn: among those that fit the shares are as if all had been asked. Where
that finds nobody, all are asked, as they are where they are few.
"""

from collections.abc import Callable, Container, Sequence
from random import Random
from typing import NamedTuple

from reach.routing.agents import Agent
from reach.routing.filters import FILTERS, PREFERENCES, Sieve, View
from reach.routing.message import Message
from reach.routing.pools import Pool
from reach.routing.steps import MAX_TOLD, Seen, Why
from reach.routing.strategies import Memory
from reach.routing.strategies.weighing import Weight

#: So often somebody is drawn. Where hardly anybody has a free slot, those who were drawn until then are all that a choice is made among.
MAX_DRAWS = 64
#: Up to so many are all asked when the draws have found nobody who could begin: nobody waits behind others while somebody could.
FEW = 256


class Drawn(NamedTuple):
    """Who was chosen, and why."""

    agent: Agent
    why: Why


class _Found(NamedTuple):
    agent: Agent
    weight: Weight
    most: float


class Hat:
    """One draw among those of a pool."""

    def __init__(
        self, pool: Pool, message: Message, view: View, barred: Container[str], also: Callable[[Agent], bool]
    ) -> None:
        """`barred`: who is not to have it whatever the filters say; `also`: what is asked beside them."""
        self._pool, self._view = pool, view
        self._barred, self._also = barred, also
        # Somebody who suits them fits, or all are asked: so they refuse as filters do.
        self._sieve = Sieve(message, view, FILTERS + PREFERENCES)
        self._refused: dict[str, Seen | None] = {}

    def draw(self, memory: Memory, rng: Random) -> Drawn | None:
        """None: nobody was found so, and all are to be asked."""
        pool, view, weighing = self._pool, self._view, self._pool.weighing
        usual = pool.usual(view.now_ms, rng)
        found: dict[str, _Found] = {}
        for _ in range(MAX_DRAWS):
            one = pool.draw(rng)
            if one is None:
                return None
            agent, most = one
            if agent.agent_id in self._refused:
                continue
            known = found.get(agent.agent_id)
            if known is None:
                known = found[agent.agent_id] = _Found(agent, weighing.now(agent, view, memory, usual), most)
            weight = known.weight
            if weight.waits or rng.random() * most >= weight.score:
                continue
            if self._fits(agent):
                return self._chosen(known, memory)
        return self._of_those(list(found.values()), memory, rng)

    def _of_those(self, found: Sequence[_Found], memory: Memory, rng: Random) -> Drawn | None:
        """Nobody was kept: one of those that were drawn, by what each weighs for the places that it had in the draw."""
        free = [one for one in found if not one.weight.waits]
        waiting = [one for one in found if one.weight.waits] if len(self._pool) > FEW else []
        for some in (free, waiting):
            left = [one for one in some if one.agent.agent_id not in self._refused]
            while left:
                shares = [one.weight.score / one.most for one in left]
                at = rng.choices(range(len(left)), shares)[0] if any(shares) else 0
                if self._fits(left[at].agent):
                    return self._chosen(left[at], memory)
                del left[at]
        return None

    def _fits(self, agent: Agent) -> bool:
        """Who is refused is kept, with the reason."""
        refusal = self._sieve.refusal(agent)
        if refusal is None and agent.agent_id not in self._barred and self._also(agent):
            return True
        self._refused[agent.agent_id] = None if refusal is None else Seen(agent.agent_id, *refusal)
        return False

    def _chosen(self, one: _Found, memory: Memory) -> Drawn:
        agent, view = one.agent, self._view
        self._pool.weighing.chosen(agent, view, memory)
        refused = [seen for seen in self._refused.values() if seen is not None]
        counts = {
            "matched": len(self._pool),
            "asked": 1 + len(self._refused),
            "fit": 1 + len(self._refused) - len(refused),
        }
        for seen in refused:
            counts[seen.filter] = counts.get(seen.filter, 0) + 1
        told = (Seen(agent.agent_id, score=one.weight.score), *refused[: MAX_TOLD - 1])
        return Drawn(agent, Why(self._pool.of[1], told, counts, (agent.agent_id,)))
