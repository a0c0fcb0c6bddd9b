"""One question through the three steps: parse, look up, write. This is all that a client of the help desk has to do."""

from dataclasses import dataclass, field
from typing import Any, TypeVar

from examples.helpdesk.messages import Answer, Docs, Draft, Intent, Question
from reach import Reach, Receipt
from reach.clock import SystemClock

STEPS = ("parse", "lookup", "write")
TIMEOUT_S = 45.0

T = TypeVar("T")


@dataclass(frozen=True)
class Asked:
    """A question. `names` are the right ones; empty when nobody knows."""

    id: str
    text: str
    names: tuple[str, ...] = ()


@dataclass
class Conversation:
    """What came of a question: a receipt per step that was taken, and when each arrived here."""

    asked: Asked
    correlation_id: str
    receipts: list[Receipt[Any]] = field(default_factory=list)
    arrived_at_ms: list[int] = field(default_factory=list)
    answer: Answer | None = None

    @property
    def found(self) -> bool:
        return self.answer is not None and self.answer.name in self.asked.names


async def hold(reach: Reach, asked: Asked, correlation_id: str) -> Conversation:
    """Take the steps, each with what the one before found; the first that fails is the last."""
    talk = Conversation(asked, correlation_id)
    intent = await _step(reach, talk, "helpdesk.parse", Question(asked.text), Intent)
    if intent is None:
        return talk
    docs = await _step(reach, talk, "stdlib.lookup", intent, Docs)
    if docs is None:
        return talk
    talk.answer = await _step(reach, talk, "helpdesk.write", Draft(intent, docs), Answer)
    return talk


async def _step(reach: Reach, talk: Conversation, capability: str, body: object, returns: type[T]) -> T | None:
    receipt = await reach.request(
        f"capability:{capability}", body, returns=returns, correlation_id=talk.correlation_id, timeout=TIMEOUT_S
    )
    talk.receipts.append(receipt)
    talk.arrived_at_ms.append(SystemClock().wall_ms())
    return receipt.output if receipt.ok else None
