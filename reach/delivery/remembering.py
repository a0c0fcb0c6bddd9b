"""What a router remembers of its choices once they have been carried out, and what it asks the others about before it chooses.

Nothing here is needed to be right: what could not be read or written costs a worse choice, and holds up no message.
"""

from collections.abc import Iterable, Sequence

from reach.backend.port import Backend
from reach.backend.steps import Again, Meeting, RouteResult, Send
from reach.clock import Clock
from reach.delivery.judge import Case, Judge
from reach.envelope.rules import sender_of, stamp_of
from reach.errors import BackendError
from reach.log import PacedLog, event_log

log = event_log("reach.remembering")

FRESH_EYES = "fresh_eyes"


class Remembering:
    """For one router: how full agents are, and (where the policy of a pattern is `fresh_eyes`) whom conversations have met."""

    def __init__(self, backend: Backend, judge: Judge, *, clock: Clock | None = None) -> None:
        self._backend, self._judge = backend, judge
        self._log = PacedLog(log, clock)

    async def recall(self, cases: Iterable[Case]) -> None:
        """Ask whom the conversations of these messages have met, all in one step. Messages of other policies cost nothing."""
        asked = sorted({_conversation_of(case) for case in cases if self._wants_fresh_eyes(case)})
        if not asked:
            return
        try:
            found = await self._backend.met([(source, stamp_of(conversation)) for source, conversation in asked])
        except BackendError as error:
            self._log.warning("not asked whom they have met", count=len(asked), error=error.code)
            return
        meetings = self._judge.by.memory.meetings
        for (source, conversation), known in zip(asked, found, strict=True):
            for one in known:
                meetings.note(source, conversation if one.here else "", one.agent, one.at_ms)

    async def keep(self, cases: Sequence[Case], results: Sequence[RouteResult], now_ms: int) -> None:
        """Note what was carried out, and write down for the other routers who has met whom. `now_ms`: by the clock of Redis."""
        memory, met = self._judge.by.memory, []
        for case, result in zip(cases, results, strict=True):
            if not result.lying:
                continue
            agent_id = _agent_of(case)
            memory.note_lies(agent_id, case.entry.partition, result.lying, now_ms)
            if self._wants_fresh_eyes(case):
                source, conversation = _conversation_of(case)
                memory.meetings.note(source, conversation, agent_id, now_ms)
                met.append(Meeting(source, stamp_of(conversation), agent_id))
        if not met:
            return
        try:
            await self._backend.meet(met)
        except BackendError as error:
            self._log.warning("not written down whom they have met", count=len(met), error=error.code)

    def _wants_fresh_eyes(self, case: Case) -> bool:
        if case.reference is not None:
            self._judge.read_again(case)
        envelope = case.envelope
        if envelope is None or envelope.target.scope != "one":
            return False
        return self._judge.index.policy(envelope.target.pattern).strategy == FRESH_EYES


def _conversation_of(case: Case) -> tuple[str, str]:
    """Of an envelope that was read: whose, and which conversation."""
    envelope = case.envelope
    return (sender_of(envelope.source), envelope.conversation) if envelope is not None else ("", "")


def _agent_of(case: Case) -> str:
    """To whom one leg was handed over; "" = to nobody."""
    decision = case.decision
    if isinstance(decision, Send):
        return decision.plans[0].agent
    return decision.plan.agent if isinstance(decision, Again) else ""
