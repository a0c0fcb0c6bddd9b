"""score: drawn in proportion to how well each does: weight x free share x success x speed, by beats and by what is known of since then.

The worked example: load 30 with 99 % success against load 10 with 95 %, equal times, gives shares of 0.448 and 0.552.
"""

import math
from collections.abc import Sequence
from random import Random
from statistics import median

import msgspec

from reach.envelope.registration import Beat
from reach.routing.agents import BUSY_SHARE, Agent, History
from reach.routing.filters import View
from reach.routing.message import Message
from reach.routing.strategies.outliers import FEW, Shares, Weighed, score_of_many, shares, shares_of_many
from reach.routing.strategies.port import Memory, Picked
from reach.routing.strategies.weighing import UNKNOWN, Usual, Weighing, Weight
from reach.routing.strategies.weighted_random import declared_weight, draw

#: Nobody is ever quite out of the draw: who is never asked can never show that it is well again.
FLOOR = 0.01


def select(candidates: Sequence[Agent], message: Message, view: View, memory: Memory, rng: Random) -> Picked:  # noqa: ARG001
    """One, by chance, in proportion to its score."""
    if len(candidates) == 1:
        return Picked(candidates)
    found = scores(candidates, view, memory)
    chosen = draw(candidates, found.weights, rng)
    memory.note_sent(chosen.agent_id, view.now_ms)
    aside = {candidates[number].agent_id: reason for number, reason in found.aside.items()}
    return Picked([chosen], found.weights, aside)


def scores(candidates: Sequence[Agent], view: View, memory: Memory) -> Shares:
    """The score of each. A newcomer, which has no history, is taken for the median of its peers."""
    told = [agent.history(view.alive_since_ms) for agent in candidates]
    if any(one.success_rate is None or one.avg_response_ms is None for one in told):
        told = _with_newcomers(told)
    weighed = [_weigh(agent, one, view, memory) for agent, one in zip(candidates, told, strict=True)]
    if len(weighed) <= FEW:
        return shares(weighed)
    return shares_of_many(weighed, _usual_of(told).avg_response_ms)


def _weigh(agent: Agent, one: History, view: View, memory: Memory) -> Weighed:
    own_ms, success = one.avg_response_ms or 0.0, one.success_rate or 0.0
    level = memory.level(agent.agent_id, one, view.now_ms, own_ms)
    own = declared_weight(agent, view) * (BUSY_SHARE if one.busy else 1.0)
    well = (1 - (level + one.beside) / one.slots) * success / (1 + own_ms / 1000)
    level += math.floor(one.beside)  # a slot of which something is left can begin a message
    if level <= one.slots - 1:
        return Weighed(own * max(well, FLOOR), False, own_ms, success)
    # Of those without a free slot: the longer what waits there, the less.
    before = 1 + level - one.slots
    return Weighed(own * max(well, FLOOR / max(before, 1)), True, own_ms * (1 + before / one.slots), success)


def _with_newcomers(told: Sequence[History]) -> list[History]:
    usual = _usual_of(told)
    return [_as_usual(one, usual) for one in told]


def _usual_of(told: Sequence[History]) -> Usual:
    success = [one.success_rate for one in told if one.success_rate is not None]
    answers_ms = [one.avg_response_ms for one in told if one.avg_response_ms is not None]
    return Usual(
        median(success) if success else UNKNOWN.success_rate,
        median(answers_ms) if answers_ms else UNKNOWN.avg_response_ms,
    )


def _as_usual(one: History, usual: Usual) -> History:
    return msgspec.structs.replace(
        one,
        success_rate=usual.success_rate if one.success_rate is None else one.success_rate,
        avg_response_ms=usual.avg_response_ms if one.avg_response_ms is None else one.avg_response_ms,
    )


# ---------------------------------------------------------------- one of many, by itself
def _most(working: Sequence[Beat]) -> float:
    """When nothing is with it: of several instances the best one may be all that is left."""
    share, success, least_ms = BUSY_SHARE, 0.0, math.inf
    for beat in working:
        share = share if beat.state == "busy" else 1.0
        success = max(success, 1.0 if beat.success_rate is None else beat.success_rate)
        least_ms = min(least_ms, 0.0 if beat.avg_response_ms is None else max(beat.avg_response_ms, 0.0))
    return share * max(success / (1 + least_ms / 1000), FLOOR)


def _now(agent: Agent, view: View, memory: Memory, usual: Usual) -> Weight:
    one = agent.history(view.alive_since_ms)
    if one.success_rate is None or one.avg_response_ms is None:
        one = _as_usual(one, usual)
    weighed = _weigh(agent, one, view, memory)
    return Weight(score_of_many(weighed, usual.avg_response_ms), weighed.waits)


def _most_of_usual(usual: Usual) -> float:
    return max(usual.success_rate / (1 + usual.avg_response_ms / 1000), FLOOR)


def _chosen(agent: Agent, view: View, memory: Memory) -> None:
    memory.note_sent(agent.agent_id, view.now_ms)


WEIGHING = Weighing(_most, _now, _most_of_usual, _chosen)
