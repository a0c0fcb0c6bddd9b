"""When there may be room again where there is none, for those who are told to come back. Pure: by what beats and limits say."""

from collections.abc import Mapping

from reach.routing.agents import Agent
from reach.routing.filters import View
from reach.routing.steps import Seen

#: Of an agent that has answered nothing yet: work that is under way ends all the time.
UNKNOWN_MS = 1_000
#: Of a context: the next beat says what is left.
CONTEXT_MS = 5_000
LEAST_MS, MOST_MS = 100, 60_000


def lacks_context(seen: Seen, view: View) -> bool:
    """Whether it is only the context of the agent that the message does not fit."""
    return seen.filter == "capacity" and seen.agent not in view.unfit and seen.agent not in view.limited


def room_in_ms(refused: list[Seen], agents: Mapping[str, Agent], view: View) -> int:
    """In how long the first of those that `capacity` refused may have room, as far as can be told."""
    waits = [_wait_ms(seen, agents.get(seen.agent), view) for seen in refused if seen.filter == "capacity"]
    return min(max(min(waits, default=UNKNOWN_MS), LEAST_MS), MOST_MS)


def _wait_ms(seen: Seen, agent: Agent | None, view: View) -> int:
    if seen.agent in view.limited and seen.agent not in view.unfit:
        return view.limited[seen.agent]
    if lacks_context(seen, view):
        return CONTEXT_MS
    known = agent.history(view.alive_since_ms) if agent is not None else None
    if known is None or known.avg_response_ms is None:
        return UNKNOWN_MS
    return round(known.avg_response_ms / known.slots)  # so often one of its slots is free
