"""What a run showed, in a few lines that people read."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from tests.chaos.cast import AGENTS, ROUTERS, SENDER

SHOWN = 30


@dataclass
class Report:
    """The figures of a run. `broken` names every promise that did not hold."""

    messages: Counter[str] = field(default_factory=Counter)  # by kind
    calls: int = 0
    cuts: Counter[str] = field(default_factory=Counter)  # connections by the name of their program
    killed: Counter[str] = field(default_factory=Counter)
    wall_s: float = 0.0
    answers: Counter[str] = field(default_factory=Counter)
    runs: int = 0
    reruns: int = 0
    repeated: int = 0  # a handler had come to its end, and its death came before the record of it
    rounds: int = 0
    waited: int = 0  # messages that were sent for later, and ran then
    fewer: int = 0  # calls of broadcasts that had fewer legs than there are agents: one was not registered then
    stored: int = 0
    cancelled: int = 0  # confirmed
    never_run: int = 0  # of those
    takeovers_ms: list[int] = field(default_factory=list)
    slowest_s: float = 0.0
    latest_ms: int = -(10**9)  # the latest answer, after its caller's total
    stall_ms: int = 0  # the longest that the senders' own loop stood still
    locals: int = 0  # receipts that a client had to make, at total + 250 ms
    records: int = 0
    keys: int = 0
    server: str = ""
    broken: list[str] = field(default_factory=list)

    @property
    def kills(self) -> int:
        """How many processes were killed."""
        return sum(self.killed.values())

    @property
    def sometimes(self) -> dict[str, int]:
        """What a long run has to meet, and how often it did: a promise about what never happened was not put to the test."""
        return {
            "a router was killed": sum(self.killed[name] for name in ROUTERS),
            "an agent was killed": sum(self.killed[name] for name in AGENTS),
            "a router's connection was cut": sum(self.cuts[name] for name in ROUTERS),
            "an agent's connection was cut": sum(self.cuts[name] for name in AGENTS),
            "a sender's connection was cut": self.cuts[SENDER],
            "the work of a killed agent was taken over": len(self.takeovers_ms),
            "a handler was run again": self.reruns,
            "a late duplicate was answered by what is stored": self.stored,
            "a message was asked for in another round": self.rounds,
            "a message waited for its moment": self.waited,
            "a cancel was confirmed": self.cancelled,
            "a cancelled message had not begun": self.never_run,
            "a caller's total was over": self.answers["retryable/timeout.total"],
        }

    @property
    def unseen(self) -> list[str]:
        """What this run has not met."""
        return [what for what, times in self.sometimes.items() if not times]

    def __str__(self) -> str:
        kinds = ", ".join(f"{count} {kind}" for kind, count in self.messages.most_common())
        late = f"{self.latest_ms} ms after" if self.latest_ms >= 0 else f"{-self.latest_ms} ms before"
        lines = [
            f"{sum(self.messages.values())} messages ({kinds}) and {self.calls} calls for them in {self.wall_s:.0f} s on {self.server}",
            f"{self.kills} processes killed -9, {sum(self.cuts.values())} connections cut",
            f"{self.runs} runs of the handler, {self.reruns} of them again before completion, {self.repeated} after an end not recorded",
            f"receipts: {dict(self.answers.most_common())}; {self.fewer} calls to all while an agent was not registered",
            f"slowest answer {self.slowest_s:.1f} s; the latest came {late} its caller's total",
            f"the senders' loop stood still for up to {self.stall_ms} ms; {self.locals} legs were ended by the client itself",
            f"takeovers, from the kill to the ledger's entry: {len(self.takeovers_ms)} ({spread(self.takeovers_ms)})",
            f"at the end: {self.records} records looked through, {self.keys} keys",
            f"sometimes: {', '.join(f'{what} ({times})' for what, times in self.sometimes.items())}",
            *(f"UNSEEN: {what}" for what in self.unseen),
            *(f"BROKEN: {what}" for what in self.broken[:SHOWN]),
        ]
        if len(self.broken) > SHOWN:
            lines.append(f"... and {len(self.broken) - SHOWN} more")
        return "\n".join(
            lines
            if self.broken
            else [*lines, "every promise held: nothing pending, nothing due, only keys of the table"]
        )


def spread(values: Sequence[int]) -> str:
    """Least, middle and greatest."""
    ordered = sorted(values)
    if not ordered:
        return "none"
    return f"min {ordered[0]} ms, median {ordered[len(ordered) // 2]} ms, max {ordered[-1]} ms"
