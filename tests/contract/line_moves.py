"""Messages of one order line, and what a router and an agent do with them."""

from typing import Any

from reach.backend.steps import Plan, RouteResult, WorkEntry
from reach.envelope.ledger import LegState
from tests.contract.drive import TO_AGENT, Drive, success
from tests.contract.places import KEYS

NAME = "0123456789abcdef0123456789abcdef"
LINE = KEYS.line(0, NAME)
OTHER = "f" * 32

LONG_MS = 1_000_000


async def queue_up(drive: Drive, count: int, *plans: Plan, line: str = NAME, **options: Any) -> list[str]:
    """So many messages of the line, routed one after the other."""
    return [await drive.sent(*plans, line=line, **_patient(options)) for _ in range(count)]


async def send_to(drive: Drive, *plans: Plan, line: str = NAME, **options: Any) -> tuple[str, RouteResult]:
    """One more of the line, and what route says."""
    return await drive.send(*plans, line=line, **_patient(options))


def _patient(options: dict[str, Any]) -> dict[str, Any]:
    return {"ttl_ms": LONG_MS, "total_ms": LONG_MS, "network_ms": 15_000} | options


async def states(drive: Drive, msg_ids: list[str]) -> list[LegState]:
    return [(await drive.leg(msg_id)).state for msg_id in msg_ids]


async def agains(drive: Drive, plan: Plan = TO_AGENT) -> list[str]:
    """Decide about everything that asks; whom it was about, and who was handed over."""
    return [await again(drive, entry, plan) for entry in await drive.work("again")]


async def again(drive: Drive, entry: WorkEntry, plan: Plan = TO_AGENT) -> str:
    result = await drive.decide(entry, plan)
    assert result.verdict == "done", result
    return entry.fields[b"m"].decode() + (":sent" if any(result.hands) else "")


async def finish(drive: Drive, msg_id: str, instance: str = "i1") -> None:
    """Let an agent run it to its end."""
    taken = await drive.taken(instance)
    assert taken.msg_id == msg_id
    assert await drive.settle(taken, success(), instance) == "done"


async def line(drive: Drive) -> list[str]:
    """Who stands in it, without marks."""
    return [member for member in await drive.place.members(LINE) if not member.startswith("@")]
