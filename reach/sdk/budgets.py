"""What a whole conversation may spend, as a program says it and as its handlers pass it on. Pure."""

import math
from collections.abc import Mapping
from typing import TypeVar

from reach.envelope.message import Budget

N = TypeVar("N", int, float)

_NAMES = ("hops", "cost", "tokens")


def check_budget(value: object) -> None:
    """Raises TypeError or ValueError for what is no budget."""
    if value is None:
        return
    if not isinstance(value, Budget | Mapping):
        raise TypeError(f"budget is {value!r}: a Budget or a mapping of {', '.join(_NAMES)} is wanted")
    given = value if isinstance(value, Mapping) else {name: getattr(value, name) for name in _NAMES}
    unknown = [name for name in given if name not in _NAMES]
    if unknown:
        raise ValueError(f"budget has {unknown[0]!r}; there is {', '.join(_NAMES)}")
    for name, limit in given.items():
        if limit is None:
            continue
        if type(limit) is not int and not (name == "cost" and type(limit) is float):
            raise TypeError(f"budget has {name} {limit!r}: {'a number' if name == 'cost' else 'an int'} is wanted")
        if not 0 <= limit < math.inf:
            raise ValueError(f"budget has {name} {limit}: 0 or more is wanted")


def budget_of(value: Budget | Mapping[str, float] | None, parent: Budget | None = None) -> Budget | None:
    """The budget that goes with a message: of each limit the smaller one, so that no handler can raise what its caller allows."""
    own = value if isinstance(value, Budget) or value is None else _read(value)
    if own is None or parent is None:
        return own if parent is None else parent
    return Budget(
        hops=_least(own.hops, parent.hops),
        cost=_least(own.cost, parent.cost),
        tokens=_least(own.tokens, parent.tokens),
    )


def _read(given: Mapping[str, float]) -> Budget:
    hops, cost, tokens = (given.get(name) for name in _NAMES)
    return Budget(
        hops=None if hops is None else int(hops),
        cost=None if cost is None else float(cost),
        tokens=None if tokens is None else int(tokens),
    )


def _least(own: N | None, parent: N | None) -> N | None:
    if own is None or parent is None:
        return own if parent is None else parent
    return min(own, parent)
