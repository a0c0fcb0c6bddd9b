"""How one, or all, of those who fit are chosen. A new strategy is a file here and a line in STRATEGIES."""

from reach.envelope.message import Scope
from reach.routing.strategies import (
    broadcast_all,
    direct,
    fresh_eyes,
    round_robin,
    score,
    sticky,
    tiered,
    weighted_random,
)
from reach.routing.strategies.port import Memory, Picked, Strategy
from reach.routing.strategies.weighing import Weighing

STRATEGIES: dict[str, Strategy] = {
    "broadcast_all": broadcast_all.select,
    "direct": direct.select,
    "fresh_eyes": fresh_eyes.select,
    "round_robin": round_robin.select,
    "score": score.select,
    "sticky": sticky.select,
    "tiered": tiered.select,
    "weighted_random": weighted_random.select,
}

#: Those that draw in proportion to what each weighs by itself: they stay quick where thousands answer.
WEIGHINGS: dict[str, Weighing] = {
    "score": score.WEIGHING,
    "weighted_random": weighted_random.WEIGHING,
}

DEFAULTS: dict[Scope, str] = {"one": "score", "all": "broadcast_all"}

__all__ = ["DEFAULTS", "STRATEGIES", "WEIGHINGS", "Memory", "Picked", "Strategy", "strategy_for"]


def strategy_for(scope: Scope, wanted: str | None) -> str:
    """The strategy's name: what the policy wants where this version has it and it suits the scope, else the default of the scope."""
    if wanted in STRATEGIES and (wanted == DEFAULTS["all"]) == (scope == "all"):
        return wanted
    return DEFAULTS[scope]
