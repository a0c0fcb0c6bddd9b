"""The states of a leg and who may follow whom: one table (PROTOCOL, section 7). Tests hold the steps to it."""

from reach.envelope.ledger import LegState

_S = LegState

#: After each state, the states that may come next. `queued` after `queued` is a move to another inbox.
TRANSITIONS: dict[LegState, frozenset[LegState]] = {
    _S.NEW: frozenset({_S.QUEUED, _S.HELD, _S.WAITING, _S.OBSERVED, _S.DONE}),
    _S.HELD: frozenset({_S.QUEUED, _S.WAITING, _S.DONE, _S.CANCELLED, _S.EXPIRED}),
    _S.QUEUED: frozenset({_S.QUEUED, _S.RUNNING, _S.RETURNED, _S.DONE, _S.CANCELLED, _S.EXPIRED}),
    _S.RUNNING: frozenset({_S.DONE, _S.RETURNED, _S.PARKED, _S.CANCELLED, _S.EXPIRED}),
    _S.RETURNED: frozenset({_S.QUEUED, _S.HELD, _S.WAITING, _S.DONE, _S.CANCELLED, _S.EXPIRED}),
    _S.WAITING: frozenset({_S.QUEUED, _S.HELD, _S.WAITING, _S.DONE, _S.CANCELLED, _S.EXPIRED}),
    _S.PARKED: frozenset({_S.RETURNED, _S.DONE, _S.CANCELLED, _S.EXPIRED}),
    _S.OBSERVED: frozenset(),
    _S.DONE: frozenset(),
    _S.CANCELLED: frozenset(),
    _S.EXPIRED: frozenset(),
}

TERMINAL = frozenset(state for state, after in TRANSITIONS.items() if not after)


def may_follow(before: LegState, after: LegState) -> bool:
    """Whether a leg may go from one state to the other."""
    return after in TRANSITIONS[before]


def mermaid() -> str:
    """The diagram for the docs, made from the table."""
    lines = ["stateDiagram-v2", f"    [*] --> {_S.NEW.value}"]
    for before in LegState:
        lines += [f"    {before.value} --> {after.value}" for after in LegState if after in TRANSITIONS[before]]
        if before in TERMINAL:
            lines.append(f"    {before.value} --> [*]")
    return "\n".join(lines) + "\n"
