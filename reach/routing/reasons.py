"""What a decision tells about itself: who was seen, who was refused by which filter and why, who was chosen."""

from collections.abc import Sequence
from typing import Any

import msgspec

from reach.routing.agents import Agent
from reach.routing.filters import Sifted
from reach.routing.message import Message
from reach.routing.steps import MAX_TOLD, Choice, Finish, Seen, Why
from reach.routing.strategies import Picked

NOBODY = Picked(())


def why_of(strategy: str, sifted: Sifted, fits: Sequence[Agent] = (), picked: Picked = NOBODY, *, via: str = "") -> Why:
    counts = {"matched": len(sifted.fits) + len(sifted.refused), "fit": len(sifted.fits)}
    for seen in sifted.refused:
        counts[seen.filter] = counts.get(seen.filter, 0) + 1
    names = tuple(agent.agent_id for agent in picked.chosen[:MAX_TOLD])
    scores = {agent.agent_id: score for agent, score in zip(fits, picked.scores, strict=False)}
    others = [agent.agent_id for agent in sifted.fits[: 2 * MAX_TOLD] if agent.agent_id not in names]
    # Where not all can be told, half of the room behind the chosen ones is for those who were refused.
    room = MAX_TOLD - len(names)
    others = others[: room - min(len(sifted.refused), room // 2)]
    passed = {**sifted.told, **picked.aside}
    fitted = (Seen(name, reason=passed.get(name, ""), score=scores.get(name)) for name in (*names, *others))
    told = [*fitted, *sifted.refused, *sifted.apart][:MAX_TOLD]
    return Why(strategy, tuple(told), counts, names, via)


def reasons(sifted: Sifted) -> dict[str, Any]:
    refused = [*sifted.refused, *sifted.apart][:MAX_TOLD]
    told = [{"agent": seen.agent, "filter": seen.filter, "reason": seen.reason} for seen in refused]
    return {"reasons": told, "candidates": len(sifted.refused)}


def ended(step: Finish, why: Why | None = None) -> Choice:
    return Choice((step,), why if why is not None else Why())


def with_tier(choice: Choice, message: Message) -> Choice:
    """The same, with the tier that the message needs and why."""
    told = f"{message.tier or 'any'}: {message.tier_why}"
    return msgspec.structs.replace(choice, why=msgspec.structs.replace(choice.why, tier=told))
