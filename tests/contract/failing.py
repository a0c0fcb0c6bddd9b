"""An agent that fails: its runs, and what becomes of the next message for it."""

from typing import Any

from reach.backend.steps import Answer, Plan, RouteResult, Taken
from reach.envelope.circuit import OPEN_MS
from tests.contract.drive import Drive, retryable

OPENS = 5
LONG: dict[str, Any] = {"total_ms": 600_000, "ttl_ms": 600_000, "processing_ms": 600_000}


async def ended(drive: Drive, answer: Answer, *, wait_ms: int = -1) -> Taken:
    """One run that ends so."""
    taken = await drive.running(**LONG)
    assert await drive.settle(taken, answer, wait_ms=wait_ms) == "done"
    return taken


async def opened(drive: Drive) -> None:
    """a1 has failed five times."""
    for _ in range(OPENS):
        await ended(drive, retryable())


async def tried(drive: Drive, *plans: Plan) -> RouteResult:
    """Another message for a1."""
    _, result = await drive.send(*plans, **LONG)
    return result


async def is_open(drive: Drive) -> bool:
    return (await tried(drive)).verdict == "open"


async def probing(drive: Drive) -> Taken:
    """The circuit was opened 30 s ago, and the probe runs."""
    await opened(drive)
    await drive.place.pass_time(OPEN_MS)
    return await drive.running(**LONG)
