"""A stage goes on as one: the again of one held leg is decided for all that are held there. Pure."""

from collections.abc import Iterable
from itertools import accumulate

from reach.backend.steps import Plan, Record
from reach.envelope.ledger import Leg, LegState, Stage
from reach.routing.steps import Choice


def stages_of(sizes: tuple[int, ...]) -> tuple[Stage, ...]:
    """The stages of a new record, in which every leg is open."""
    firsts = accumulate(sizes, initial=0)
    return tuple(Stage(first, size, size) for first, size in zip(firsts, sizes, strict=False))


def held_beside(record: Record, number: int) -> dict[int, Leg]:
    """The other legs that are held with this one, which waits for its stage."""
    if record.head.scope != "all" or record.legs[number].state is not LegState.HELD:
        return {}
    return {n: leg for n, leg in record.legs.items() if n != number and leg.state is LegState.HELD}


def longest(choice: Choice, others: Iterable[Choice]) -> Choice:
    """The choice whose agent declares the longest processing time."""
    return max((choice, *others), key=lambda each: each.max_process_ms)


def delayed(plan: Plan, wait_ms: int) -> Plan:
    """The same leg later."""
    return Plan("delay", agent=plan.agent, wait_ms=wait_ms)
