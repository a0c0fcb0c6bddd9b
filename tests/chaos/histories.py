"""What the senders saw: every message, every call for it with its receipts, and all the mail that came."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from reach import Receipt
from reach.envelope.records import decode_receipt
from reach.sdk.receipts import receipt_of

Loss = dict[str, Any]  # {attempt, agent, code, at}, as the ledger's history has it


class Call(NamedTuple):
    """One caller who asked for a message, and what it got. Moments by the machine's clock, as Redis TIME is here."""

    who: str
    asked_at_ms: int
    seconds: float
    total_s: float
    receipts: tuple[Receipt[Any], ...]
    stall_ms: int  # so long the caller's own event loop stood still since its total was over: a busy machine, not Redis


@dataclass
class Message:
    """One message.

    `kind`: what its sender did. `losses`: by leg, from its record. `cancelled_at_ms`: when that was confirmed. `not_before_ms`: it must not
    be handed over earlier, by the clock of Redis, which is the machine's; 0: at once.
    """

    n: int
    kind: str
    scope: str
    msg_id: str = ""
    calls: list[Call] = field(default_factory=list)
    cancelled_at_ms: int | None = None
    not_before_ms: int = 0
    losses: dict[int, list[Loss]] = field(default_factory=dict)

    @property
    def receipts(self) -> list[Receipt[Any]]:
        """All that any caller got."""
        return [receipt for call in self.calls for receipt in call.receipts]


class Slot(NamedTuple):
    """One place for one terminal receipt."""

    mailbox: str
    msg_id: str
    leg: int
    round: int


class Facts(NamedTuple):
    """What must be the same in everything that says how a leg ended in a round."""

    status: str
    code: str
    agent: str | None
    attempts: int
    finished_at: int
    output: str


def facts_of(receipt: Receipt[Any]) -> Facts:
    """What it says."""
    return Facts(
        receipt.status.value,
        receipt.code,
        receipt.target_agent,
        receipt.attempts,
        receipt.finished_at,
        repr(receipt.output),
    )


def is_local(receipt: Receipt[Any]) -> bool:
    """Whether the client had to make it, since nothing came from the ledger in time."""
    return bool(receipt.details.get("local"))


class Mail:
    """Every receipt that came into a mailbox, each entry once, however often it was read."""

    def __init__(self) -> None:
        self._entries: dict[tuple[str, str], Receipt[Any]] = {}
        self._by_slot: dict[Slot, list[Receipt[Any]]] = defaultdict(list)

    def add(self, mailbox: str, entry_id: str, data: bytes) -> Receipt[Any] | None:
        """A receipt was read. None: it is known."""
        if (mailbox, entry_id) in self._entries:
            return None
        receipt = receipt_of(decode_receipt(data))
        self._entries[mailbox, entry_id] = receipt
        self._by_slot[Slot(mailbox, receipt.msg_id, receipt.leg, receipt.round)].append(receipt)
        return receipt

    @property
    def slots(self) -> dict[Slot, Sequence[Receipt[Any]]]:
        """The receipts of each place."""
        return dict(self._by_slot)


class Tap:
    """A backend whose mail is written down, whatever the client makes of it."""

    def __init__(self, backend: Any, mail: Mail) -> None:
        self._backend, self._mail = backend, mail

    def __getattr__(self, name: str) -> Any:
        return getattr(self._backend, name)

    async def read_mail(self, mailbox: str, *args: Any, **options: Any) -> Any:
        """As the backend's."""
        entries = await self._backend.read_mail(mailbox, *args, **options)
        for entry in entries:
            if entry.kind == "receipt":
                self._mail.add(mailbox, entry.id, entry.data)
        return entries
