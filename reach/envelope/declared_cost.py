"""What a message costs by what its agent declares. Pure."""

from collections.abc import Callable

from reach.envelope.registration import Registration


def costs_of(declared: Registration) -> tuple[float | None, ...]:
    """All that it says of costs: its own, and those of its capabilities."""
    return (declared.cost, *(one.cost for one in declared.capabilities))


def declared_cost(declared: Registration, asked: Callable[[str], bool]) -> float | None:
    """The cost of the first capability that was asked for and declares one, else the agent's own; None: it declares none."""
    of_capabilities = (one.cost for one in declared.capabilities if one.cost is not None and asked(one.name))
    return next(of_capabilities, declared.cost)
