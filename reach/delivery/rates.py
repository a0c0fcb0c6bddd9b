"""Rate limits: what an agent takes in a minute is paid for before it is handed over, from one bucket for all routers.

A hand-over that then came to nothing (its inbox was full or gone, another router was quicker) is given back; a router that dies in
between has paid for nothing, and the bucket fills again.
"""

from collections.abc import Iterable

import msgspec

from reach.backend.port import Backend
from reach.backend.steps import Again, RouteResult, Send
from reach.clock import Clock
from reach.delivery.judge import Case
from reach.envelope.registration import Rate
from reach.routing.index import CapabilityIndex

MINUTE_MS = 60_000
MAX_AGENTS = 10_000
HANDS_OVER = frozenset({"deliver", "move"})


class _Turns(msgspec.Struct):
    """What this router knows of an empty bucket: when there will be something in it, and when after all those whom it has put off."""

    empty_until_ms: int
    next_ms: int
    tokens: int  # for a message that needs so many


class Rates:
    """Pays for hand-overs to agents that declare a limit. Who is put off is told a turn of his own, so that not all come at once."""

    def __init__(self, backend: Backend, index: CapabilityIndex, clock: Clock) -> None:
        self._backend, self._index, self._clock = backend, index, clock
        self._turns: dict[str, _Turns] = {}

    def begin(self, case: Case) -> None:
        """Tell the case whose bucket is known to be empty, and in how many ms it may have its turn there: nobody needs to be asked."""
        now_ms, tokens = self._clock.monotonic_ms(), _tokens(case)
        self._turns = {agent: turns for agent, turns in self._turns.items() if turns.empty_until_ms > now_ms}
        case.limited = {
            agent: max(turns.empty_until_ms, turns.next_ms) - now_ms
            for agent, turns in self._turns.items()
            if tokens >= turns.tokens
        }

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
                self._note(case, agent_id, wait_ms)
                paid = False
            else:
                case.paid = {**case.paid, agent_id: agent.rate}
        return paid

    def put_off(self, case: Case) -> None:
        """The message has its turn: whoever comes next has a later one."""
        if not case.limited or not _waits(case):
            return
        agent_id = min(case.limited, key=lambda agent: case.limited[agent])
        agent, turns = self._index.agents.get(agent_id), self._turns.get(agent_id)
        if agent is not None and agent.rate is not None and turns is not None:
            mine_ms = self._clock.monotonic_ms() + case.limited[agent_id]
            turns.next_ms = mine_ms + _apart_ms(agent.rate, _tokens(case))

    async def close(self, case: Case, result: RouteResult | None) -> None:
        """The case has its verdict: give back what was paid for hand-overs that did not happen."""
        used = _used(case, result)
        for agent_id, rate in case.paid.items():
            if agent_id not in used:
                await self._backend.spend_rate(agent_id, rate, _tokens(case), back=True)
        case.paid = {}

    def _note(self, case: Case, agent_id: str, wait_ms: int) -> None:
        now_ms = self._clock.monotonic_ms()
        known = self._turns.get(agent_id)
        next_ms = max(now_ms + wait_ms, known.next_ms if known is not None else 0)
        if known is not None or len(self._turns) < MAX_AGENTS:
            self._turns[agent_id] = _Turns(now_ms + wait_ms, next_ms, _tokens(case))
        case.limited = {**case.limited, agent_id: next_ms - now_ms}


def _apart_ms(rate: Rate, tokens: int) -> int:
    """How long it takes until what one message takes has flowed back."""
    for_message_ms = MINUTE_MS * 1_000 // rate.messages if rate.messages else 0
    for_tokens_ms = MINUTE_MS * min(tokens, rate.tokens) // rate.tokens if rate.tokens else 0
    return max(for_message_ms, for_tokens_ms)


def _tokens(case: Case) -> int:
    needs = case.envelope.needs if case.envelope is not None else None
    return (needs.context_tokens or 0) if needs is not None else 0


def _handed_to(case: Case) -> list[str]:
    decision = case.decision
    if isinstance(decision, Send):
        return [plan.agent for plan in decision.plans if plan.act in HANDS_OVER]
    if isinstance(decision, Again) and decision.plan.act in HANDS_OVER:
        return [decision.plan.agent]
    return []


def _waits(case: Case) -> bool:
    decision = case.decision
    if isinstance(decision, Send):
        return any(plan.act == "delay" for plan in decision.plans)
    return isinstance(decision, Again) and decision.plan.act == "delay"


def _used(case: Case, result: RouteResult | None) -> Iterable[str]:
    """To whom it was handed over. A new round of a broadcast opens some of its legs, and does not say which: they count as all."""
    if result is None or result.verdict != "done" or result.known or not any(result.hands):
        return ()
    return _handed_to(case)
