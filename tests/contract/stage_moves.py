"""The moves of tests about stages (process_order): legs 0 and 1 in the first stage, 2 and 3 in the second, 4 only observes."""

from typing import Any

from reach.backend.steps import Again, Answer, Plan, RouteResult, Taken, WorkEntry
from reach.envelope.ledger import LegState, Stage
from tests.contract.drive import Drive, new_id, success

AGENTS = ("a1", "a2", "b1", "b2", "o1")
STAGES = (Stage(0, 2, 2), Stage(2, 2, 2))


def plans(*acts: str) -> tuple[Plan, ...]:
    """A plan for each of the agents, in their order."""
    return tuple(Plan(act, agent) for act, agent in zip(acts, AGENTS, strict=False))  # type: ignore[arg-type]


IN_ORDER = plans("deliver", "deliver", "hold", "hold", "observe")


class Order(Drive):
    """A drive with five agents, and a broadcast in two stages."""

    async def ready(self) -> "Order":
        for agent in AGENTS:
            await self.backend.open_inbox(0, agent)
        return self

    async def in_order(self, *what: Plan, msg_id: str = "", stages: tuple[Stage, ...] = STAGES, **head: Any) -> str:
        """A broadcast that has been routed; its id."""
        msg_id = msg_id or new_id()
        _, result = await self.send(*(what or IN_ORDER), msg_id=msg_id, scope="all", stages=stages, **head)
        assert result.verdict == "done", result
        return msg_id

    async def states(self, msg_id: str) -> str:
        """The first letters of the states of all legs: h held, q queued, r running, b back (returned), w, p, o, d, c, e."""
        record = await self.backend.inspect(0, msg_id)
        assert record is not None
        short = {LegState.RETURNED: "b"}
        return "".join(short.get(leg.state, leg.state.value[0]) for _, leg in sorted(record.legs.items()))

    async def one(self, agent: str) -> Taken:
        """What that agent is given."""
        (taken,) = await self.take(agent=agent)
        return taken

    async def end(self, agent: str, answer: Answer | None = None) -> str:
        """The agent takes its one message and gives a result."""
        return await self.settle_as(agent, await self.one(agent), answer or success())

    async def released(self, entry: WorkEntry, *others: Plan, plan: Plan | None = None, **changes: Any) -> RouteResult:
        """Route the again of a stage as a router does: a plan for each of its held legs."""
        msg_id, number = entry.fields[b"m"].decode(), int(entry.fields[b"l"])
        record = await self.backend.inspect(0, msg_id, number)
        assert record is not None
        held = [n for n, leg in record.legs.items() if leg.state is LegState.HELD and n != number]
        made = dict(zip(held, others or [Plan("deliver", record.legs[n].agent) for n in held], strict=True))
        fields: dict[str, Any] = {
            "entry": entry,
            "msg_id": msg_id,
            "leg": number,
            "hand": entry.fields[b"h"].decode(),
            "state": LegState.HELD,
            "attempt": record.legs[number].attempt,
            "plan": plan or Plan("deliver", record.legs[number].agent),
            "others": made,
        }
        return await self.route(Again(**fields | changes))

    async def called(self) -> list[int]:
        """The legs that the internal door asks for."""
        return [int(entry.fields[b"l"]) for entry in await self.work("again")]

    async def codes(self) -> dict[int, str]:
        """The codes of the receipts that have come since the last look, by leg; none twice."""
        receipts = await self.receipts()
        found = {receipt["leg"]: receipt["code"] for receipt in receipts}
        assert len(found) == len(receipts), receipts
        return found
