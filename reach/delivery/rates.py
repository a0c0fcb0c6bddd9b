"""Rate limits: what an agent takes in a minute is paid for before it is handed over, from one bucket for all routers.

A hand-over that then came to nothing (its inbox was full or gone, another router was quicker) is given back; a router that dies in
between has paid for nothing, and the bucket fills again.
"""

from collections.abc import Iterable, Sequence

from reach.backend.port import Backend
from reach.backend.steps import Again, Plan, RouteResult, Send
from reach.clock import Clock
from reach.delivery.judge import Case
from reach.delivery.turns import Turns
from reach.envelope.registration import Rate
from reach.routing.index import CapabilityIndex

MINUTE_MS = 60_000
MAX_AGENTS = 10_000
HANDS_OVER = frozenset({"deliver", "move"})


class Rates:
    """Pays for hand-overs to agents that declare a limit. Who is put off is told a turn of his own, so that not all come at once."""

    def __init__(self, backend: Backend, index: CapabilityIndex, clock: Clock) -> None:
        self._backend, self._index, self._clock = backend, index, clock
        self._turns: dict[str, Turns] = {}

    def begin(self, case: Case) -> None:
        """Tell the case whose bucket is known to be empty, and in how many ms it may have its turn there: nobody needs to be asked."""
        now_ms, msg_id, tokens = self._clock.monotonic_ms(), _message(case), _tokens(case)
        self._turns = {agent: turns for agent, turns in self._turns.items() if not turns.is_over(now_ms)}
        waits = {agent: turns.wait_ms(msg_id, tokens, now_ms) for agent, turns in self._turns.items()}
        case.limited = {agent: wait_ms for agent, wait_ms in waits.items() if wait_ms}

    async def pay(self, case: Case) -> bool:
        """Pay for what the decision hands over. False: somebody is over its limit, as `case.limited` says now: decide anew.

        Raises:
            BackendError: It could not be asked; what was paid is the price.
        """
        paid = True
        for agent_id in _handed_to(case):
            agent = self._index.agents.get(agent_id)
            if agent is None or agent.rate is None or agent_id in case.paid:
                continue
            wait_ms = await self._backend.spend_rate(agent_id, agent.rate, _tokens(case))
            if wait_ms:
                self._emptied(case, agent_id, wait_ms)
                paid = False
            else:
                case.paid = {**case.paid, agent_id: agent.rate}
        return paid

    def put_off(self, case: Case) -> None:
        """The message is decided: where it waits it has its turn, and keeps it while it looks again; else it needs none any more."""
        now_ms, msg_id = self._clock.monotonic_ms(), _message(case)
        agents = _waits_for(case)
        for agent_id, turns in self._turns.items():
            agent = self._index.agents.get(agent_id)
            if agent_id not in agents:
                turns.drop(msg_id)
            elif agent is not None and agent.rate is not None:
                turns.give(msg_id, case.limited[agent_id], _apart_ms(agent.rate, _tokens(case)), now_ms)

    async def close(self, case: Case, result: RouteResult | None) -> None:
        """The case has its verdict: give back what was paid for hand-overs that did not happen."""
        used = _used(case, result)
        for agent_id, rate in case.paid.items():
            if agent_id not in used:
                await self._backend.spend_rate(agent_id, rate, _tokens(case), back=True)
        case.paid = {}

    def _emptied(self, case: Case, agent_id: str, wait_ms: int) -> None:
        now_ms, msg_id, tokens = self._clock.monotonic_ms(), _message(case), _tokens(case)
        turns = self._turns.get(agent_id) or Turns(0, 0)
        turns.emptied(msg_id, wait_ms, tokens, now_ms)
        if len(self._turns) < MAX_AGENTS:
            self._turns[agent_id] = turns
        case.limited = {**case.limited, agent_id: turns.wait_ms(msg_id, tokens, now_ms)}


def _apart_ms(rate: Rate, tokens: int) -> int:
    """How long it takes until what one message takes has flowed back."""
    for_message_ms = MINUTE_MS * 1_000 // rate.messages if rate.messages else 0
    for_tokens_ms = MINUTE_MS * min(tokens, rate.tokens) // rate.tokens if rate.tokens else 0
    return max(for_message_ms, for_tokens_ms)


def _tokens(case: Case) -> int:
    needs = case.envelope.needs if case.envelope is not None else None
    return (needs.context_tokens or 0) if needs is not None else 0


def _handed_to(case: Case) -> list[str]:
    return [plan.agent for plan in _plans(case) if plan.act in HANDS_OVER]


def _plans(case: Case) -> Sequence[Plan]:
    decision = case.decision
    if isinstance(decision, Send):
        return decision.plans
    return (decision.plan, *decision.others.values()) if isinstance(decision, Again) else ()


def _message(case: Case) -> str:
    if case.reference is not None:
        return case.reference.msg_id
    return case.envelope.msg_id if case.envelope is not None else ""


def _waits_for(case: Case) -> set[str]:
    """The agents at whose limits it waits: a leg of a broadcast at that of its own, any other at the one that comes first."""
    waiting = [plan.agent for plan in _plans(case) if plan.act == "delay"]
    named = {agent for agent in waiting if agent in case.limited}
    if len(named) == len(waiting) or not case.limited:
        return named
    return named | {min(case.limited, key=lambda agent: case.limited[agent])}


def _used(case: Case, result: RouteResult | None) -> Iterable[str]:
    """To whom it was handed over. A new round of a broadcast opens some of its legs, and does not say which: they count as all."""
    if result is None or result.verdict != "done" or result.known or not any(result.hands):
        return ()
    return _handed_to(case)
