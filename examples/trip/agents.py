"""Those who book: each can also undo, and both are safe to ask twice, since the caller's key says which piece of work it is."""

from dataclasses import dataclass, field

from reach import Agent, Context, Reject

KINDS = ("flight", "hotel", "car")


@dataclass
class Ledger:
    """What is booked now, what must not be booked any more, and all that happened."""

    booked: dict[str, str] = field(default_factory=dict)
    undone: set[str] = field(default_factory=set)
    lines: list[str] = field(default_factory=list)


def agents(ledger: Ledger, *, hotel_is_full: bool) -> list[Agent]:
    """One agent for each kind of booking."""
    return [_agent(kind, ledger, is_full=hotel_is_full and kind == "hotel") for kind in KINDS]


def _agent(kind: str, ledger: Ledger, *, is_full: bool) -> Agent:
    agent = Agent(f"{kind}-desk")

    @agent.capability(f"{kind}.book")
    async def book(body: dict[str, str], ctx: Context) -> str:
        if is_full:
            raise Reject("full", f"no {kind} is left")
        number = f"{kind}/{body['order']}"
        if number in ledger.undone:
            raise Reject("undone", "it was undone before it was done")
        ledger.booked[number] = ctx.key
        ledger.lines.append(f"booked {number}")
        return number

    @agent.capability(f"{kind}.undo")
    async def undo(body: dict[str, str]) -> bool:
        """By the order, not by a booking number: a booking whose receipt never came has none that the caller could know.

        The mark stays: a run that was given up may be at work yet, and come to its booking after this.
        """
        number = f"{kind}/{body['order']}"
        ledger.undone.add(number)
        found = ledger.booked.pop(number, None)
        ledger.lines.append(f"undone {number}" if found else f"nothing to undo of {number}")
        return found is not None

    return agent
