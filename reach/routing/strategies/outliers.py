"""Who is left aside in a draw: whoever would end a message much later than the best ones would, now (decision 0025).

A draw in proportion asks a slow agent for its share of the messages, and each of those waits for it. So whoever would take more than twice
as long as the best, with what is queued there, is out of the draw but for a small share: who is never asked can never show that it is well
again. Once the others are full they would take as long, and it is in the draw again.
"""

from collections.abc import Sequence
from typing import NamedTuple

#: How many times longer than the best one of those who succeed, and how much more at least: less is nobody's wait.
TIMES, MORE_MS = 2.0, 100.0
#: Who succeeds much less often than others is no measure of how long it takes: to fail is quickly done.
RELIABLE = 0.9
#: Of all messages so many go to those who are left aside, by their scores.
SHARE = 0.01
#: Among more than these each is weighed by itself, against the usual time of its peers; who is left aside has so much of its score.
FEW, PART = 20, 0.02


class Weighed(NamedTuple):
    """One candidate.

    Attributes:
        score: By the formula.
        waits: Somebody would wait behind others there.
        ends_ms: How long a message would take there, with what is queued before it.
        success: How often it succeeds, 0 to 1.
    """

    score: float
    waits: bool
    ends_ms: float
    success: float


class Shares(NamedTuple):
    """What each weighs in the draw, and who of them is left aside (by number), and why."""

    weights: list[float]
    aside: dict[int, str]


def shares(weighed: Sequence[Weighed]) -> Shares:
    """Nobody waits behind others while somebody could begin, and nobody waits for a slow one while a quick one could."""
    least = RELIABLE * max(one.success for one in weighed)
    best_ms = min(one.ends_ms for one in weighed if one.success >= least)
    most_ms = TIMES * best_ms + MORE_MS
    near = [one for one in weighed if one.ends_ms <= most_ms]
    room = not all(one.waits for one in near)
    whole = sum(one.score for one in near if not (room and one.waits))
    if len(near) == len(weighed) or whole <= 0:
        room = not all(one.waits for one in weighed)
        return Shares([0.0 if room and one.waits else one.score for one in weighed], {})
    far = sum(one.score for one in weighed if one.ends_ms > most_ms and not one.waits)
    weights, aside = [], {}
    for number, one in enumerate(weighed):
        if one.ends_ms <= most_ms:
            weights.append(0.0 if room and one.waits else one.score)
        else:
            weights.append(0.0 if one.waits or not one.score else SHARE * whole * (one.score / far))
            aside[number] = f"it would take {one.ends_ms / 1000:.1f} s, the best {best_ms / 1000:.1f} s: left aside"
    return Shares(weights, aside)


def score_of_many(one: Weighed, usual_ms: float) -> float:
    """What one weighs among so many that nobody looks at all of them. `usual_ms`: the median time of its peers."""
    return one.score * PART if one.ends_ms > TIMES * usual_ms + MORE_MS else one.score


def shares_of_many(weighed: Sequence[Weighed], usual_ms: float) -> Shares:
    """The same for all of them, where somebody does."""
    room = not all(one.waits for one in weighed)
    weights = [0.0 if room and one.waits else score_of_many(one, usual_ms) for one in weighed]
    aside = {
        number: f"it would take {one.ends_ms / 1000:.1f} s, usual are {usual_ms / 1000:.1f} s: left aside"
        for number, one in enumerate(weighed)
        if one.ends_ms > TIMES * usual_ms + MORE_MS
    }
    return Shares(weights, aside)
