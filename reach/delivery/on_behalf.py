"""Settling for agents that run no scripts: they append their receipt to `receipts`, a router settles it (PROTOCOL, section 10).

Scripts append to it what nobody records who was there; of that a router writes the hop records.
"""

import asyncio

from reach.backend.port import Backend
from reach.backend.steps import Record, Settlement, WorkEntry
from reach.clock import Clock
from reach.delivery.answers import read_answer, with_cost
from reach.delivery.derived import Derived, read_untold
from reach.delivery.judge import Reference, read_reference
from reach.delivery.spending import Spender, spend, used_by
from reach.delivery.telling import conversation_of
from reach.delivery.trail import Trail
from reach.envelope.codec import decode
from reach.envelope.declared_cost import costs_of, declared_cost
from reach.envelope.message import Envelope
from reach.envelope.registration import Registration
from reach.errors import SERVER_ERRORS, BackendError, EnvelopeError, RecordError
from reach.log import PacedLog, event_log
from reach.routing.index import CapabilityIndex
from reach.routing.pattern import parse

log = event_log("reach.router")

MAX_AT_ONCE = 32


class OnBehalf:
    """Applies receipts entries. Twice is once: the hand proves possession, and the second time it is stale."""

    def __init__(self, backend: Backend, trail: Trail, index: CapabilityIndex, *, clock: Clock | None = None) -> None:
        """`index`: what agents declare that their messages cost."""
        self._backend, self._index = backend, index
        self._trail, self._derived = trail, Derived(trail.hops)
        self._log = PacedLog(log, clock)

    async def settle(self, partition: int, entries: list[WorkEntry]) -> list[WorkEntry]:
        """Settle what these entries say; all of them then need nothing more. Cancelled: some may have been settled.

        Raises:
            BackendUnavailable: Redis is away; the entries stay pending.
        """
        for start in range(0, len(entries), MAX_AT_ONCE):
            part = entries[start : start + MAX_AT_ONCE]
            await asyncio.gather(*(self._settle(partition, entry) for entry in part))
        return entries

    async def _settle(self, partition: int, entry: WorkEntry) -> None:
        reference = read_reference(entry.fields)
        if reference is None:
            self._log.info("receipt without a message", entry=entry.id, partition=partition)
            return
        try:
            if b"t" in entry.fields and b"r" not in entry.fields:  # an agent may have put more beside its receipt
                await self._tell(partition, reference, entry.fields[b"t"])
            else:
                await self._apply(partition, reference, entry.fields.get(b"r", b""))
        except SERVER_ERRORS:
            raise
        except RecordError as error:
            self._log.info("nothing is said", msg_id=reference.msg_id, error=error.message)
        except BackendError as error:  # the ledger record is none: no answer can be applied to it
            self._log.warning("receipt not applied", msg_id=reference.msg_id, error=str(error))

    async def _tell(self, partition: int, reference: Reference, data: bytes) -> None:
        said = read_untold(data)
        record = await self._backend.inspect(partition, reference.msg_id, reference.leg, envelope=True)
        self._derived.untold(partition, reference, said, record)

    async def _apply(self, partition: int, reference: Reference, data: bytes) -> None:
        answer, wait_ms = read_answer(data)
        used = used_by(answer)
        record = await self._backend.inspect(partition, reference.msg_id, reference.leg, envelope=True)
        leg = record.legs.get(reference.leg) if record is not None else None
        if record is None or leg is None or leg.hand != reference.hand or not leg.agent:
            self._log.info("stale receipt", msg_id=reference.msg_id, leg=reference.leg)
            return
        declared = self._declared(leg.agent)
        if declared is not None and answer.status == "success":
            if not record.envelope:
                record = (
                    await self._backend.inspect(partition, reference.msg_id, reference.leg, envelope=True) or record
                )
            answer = with_cost(answer, self._cost(declared, _message_of(record)))
            used = used_by(answer)
        conversation, attempt, message = conversation_of(record), leg.attempt + 1, _message_of(record)
        run = Spender(conversation, reference.msg_id, reference.leg, record.head.round, attempt, leg.hand, message)
        await spend(self._backend, run, used, self._log)
        settlement = Settlement(reference.msg_id, reference.leg, reference.hand, answer, wait_ms=wait_ms)
        mark = self._trail.mark()
        verdicts = await self._backend.settle(partition, leg.agent, [settlement])
        if verdicts[0] == "done":
            after = await self._backend.inspect(partition, reference.msg_id, reference.leg)
            self._derived.settled(partition, record, reference, answer, after, mark)
        else:
            self._log.info("receipt came late", msg_id=reference.msg_id, verdict=verdicts[0])

    def _declared(self, agent_id: str) -> Registration | None:
        """The declaration of an agent that says what its messages cost."""
        agent = self._index.agents.get(agent_id)
        if agent is None or all(cost is None for cost in costs_of(agent.declared)):
            return None
        return agent.declared

    def _cost(self, declared: Registration, message: Envelope | None) -> float | None:
        terms = () if message is None else self._index.terms_of(parse(message.target.pattern))
        return declared_cost(declared, lambda name: any(term.matches(name) for term in terms))


def _message_of(record: Record) -> Envelope | None:
    """What was run; None where the bytes of it are lost, or were not asked for."""
    try:
        return decode(record.envelope, max_bytes=len(record.envelope)) if record.envelope else None
    except EnvelopeError:
        return None
