"""What a check found: ok, warn or fail, one sentence, and the command that helps."""

from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple

import msgspec

from reach.backend.survey import Survey

Status = Literal["ok", "warn", "fail"]
RANK: dict[Status, int] = {"ok": 0, "warn": 1, "fail": 2}
SHOWN = 3


class Finding(msgspec.Struct, frozen=True):
    """One check's result. `details`: everything that is wrong, one sentence each; `says` names the first three of it."""

    check: str
    status: Status
    says: str
    helps: str = ""
    details: tuple[str, ...] = ()


class Fault(NamedTuple):
    """One thing that is wrong, how bad it is, and what helps."""

    status: Status
    says: str
    helps: str = ""


Check = Callable[[Survey], Finding]


def judged(check: str, faults: Sequence[Fault], otherwise: str) -> Finding:
    """The finding of all faults: the worst first, and what helps against that. `otherwise`: what is said where there is none."""
    if not faults:
        return Finding(check, "ok", otherwise)
    ordered = sorted(faults, key=lambda fault: -RANK[fault.status])
    told = [fault.says for fault in ordered]
    more = f"; and {len(told) - SHOWN} more" if len(told) > SHOWN else ""
    helps = next((fault.helps for fault in ordered if fault.helps), "")
    return Finding(check, ordered[0].status, "; ".join(told[:SHOWN]) + more, helps, tuple(told))


def worst(findings: Sequence[Finding]) -> Status:
    """The worst of them."""
    return max((finding.status for finding in findings), key=RANK.__getitem__, default="ok")


def spoken_ms(ms: int) -> str:
    """A duration as people say it."""
    if ms < 1_000:
        return f"{ms} ms"
    if ms < 120_000:
        return f"{ms / 1000:.1f} s".replace(".0 s", " s")
    return f"{ms // 60_000} min" if ms < 7_200_000 else f"{ms // 3_600_000} h"


def version_of(text: str) -> tuple[int, ...]:
    """The first two numbers of a version."""
    return tuple(int(part) for part in text.split(".")[:2] if part.isdigit())
