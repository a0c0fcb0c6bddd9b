"""process_order: who of a broadcast is in which stage. Pure.

An agent that the patterns of two stages mean belongs to the first; who is in none only observes.
"""

from collections.abc import Sequence

import msgspec

from reach.routing.index import CapabilityIndex
from reach.routing.message import Message
from reach.routing.steps import Choice, Delay, Deliver, Finish, Hold, Observe, Step


def staged(choice: Choice, message: Message, index: CapabilityIndex, *, goes_on: bool) -> Choice:
    """A fan-out in the order of its stages: only the first that has anybody begins.

    `goes_on`: past a stage that nobody is in. Without it all behind an empty first stage end, and later ones when they are reached.
    """
    place: dict[str, int] = {}
    for number, patterns in enumerate(message.stages):
        for pattern in patterns:
            for agent in index.match(pattern):
                place.setdefault(agent.agent_id, number)
    stages: list[list[Deliver | Delay]] = [[] for _ in message.stages]
    observers: list[Step] = []
    for step in choice.steps:
        if not isinstance(step, Deliver | Delay):
            continue
        if step.agent in place:
            stages[place[step.agent]].append(step)
        else:
            observers.append(Observe(step.agent))
    if not any(stages):
        return msgspec.structs.replace(choice, steps=(_empty(0, ""),), max_process_ms=0)
    steps = _begun(stages, goes_on=goes_on)
    return msgspec.structs.replace(choice, steps=(*steps, *observers), stages=tuple(map(len, stages)))


def _begun(stages: Sequence[Sequence[Deliver | Delay]], *, goes_on: bool) -> list[Step]:
    first = next(number for number, stage in enumerate(stages) if stage)
    if first > 0 and not goes_on:
        return [_empty(0, step.agent) for stage in stages for step in stage]
    later = [Hold(step.agent) for stage in stages[first + 1 :] for step in stage]
    return [*stages[first], *later]


def _empty(number: int, agent: str) -> Finish:
    details = {"state": "new", "stage": number, "empty": True}
    return Finish("stage.failed", "nobody is in a stage of process_order", details, agent=agent)
