"""Every flow of a message, and the records that it leaves: point, who recorded it, what it says; in the order of what happened."""

from collections.abc import Callable
from dataclasses import dataclass

from reach.tracing.record import HopRecord
from tests.integration.points.town import Act


@dataclass(frozen=True)
class Flow:
    """One flow.

    Attributes:
        points: A line per record, as `line_of` gives it.
        traces: How many conversations there are: each is one tree on one trace id.
    """

    name: str
    act: Act
    points: tuple[str, ...]
    traces: int = 1


FLOWS: dict[str, Flow] = {}


def flow(points: str, *, traces: int = 1) -> Callable[[Act], Act]:
    """Register the decorated coroutine function."""

    def add(act: Act) -> Act:
        lines = tuple(line.strip() for line in points.strip().splitlines())
        FLOWS[act.__name__] = Flow(act.__name__, act, lines, traces)
        return act

    return add


def line_of(kind: str, record: HopRecord) -> str:
    """`point who [leg N] [round N] [run N] [agent] [code] [final] [stored]`."""
    parts = [record.point, kind]
    parts += [f"leg {record.leg}"] if record.leg else []
    parts += [f"round {record.round}"] if record.round > 1 else []
    parts += [f"run {record.attempt}"] if record.attempt else []
    parts += [part for part in (record.agent, record.code) if part]
    parts += ["final"] if record.final else []
    return " ".join([*parts, "stored"] if record.stored else parts)
