"""What a router remembers of its choices once they have been carried out."""

from collections.abc import Iterable

from reach.backend.steps import Again, RouteResult, Send
from reach.delivery.judge import Case
from reach.routing.strategies import Memory


def note_lying(memory: Memory, cases: Iterable[Case], results: Iterable[RouteResult], now_ms: int) -> None:
    """How full the agents are that have just been handed something, whoever has sent what lies there. `now_ms`: by the clock of Redis."""
    for case, result in zip(cases, results, strict=True):
        if result.lying:
            memory.note_lies(_agent_of(case), case.entry.partition, result.lying, now_ms)


def _agent_of(case: Case) -> str:
    """To whom one leg was handed over; "" = to nobody."""
    decision = case.decision
    if isinstance(decision, Send):
        return decision.plans[0].agent
    return decision.plan.agent if isinstance(decision, Again) else ""
