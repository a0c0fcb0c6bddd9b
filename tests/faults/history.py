"""What really happened in a run: seen from inside the backend, where no fault reaches."""

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from reach.backend.steps import MailEntry, Settlement, SettleVerdict, Taken, TakeResult
from reach.envelope.codec import decode
from tests.faults.process import Process

LegKey = tuple[str, int]  # msg_id, leg


class Slot(NamedTuple):
    """One place for one terminal receipt."""

    mailbox: str
    msg_id: str
    leg: int
    round: int


@dataclass
class History:
    """Submitted envelopes, hand-overs, completions, receipts; and the promises that were broken on the way."""

    accepted: dict[str, set[str]] = field(default_factory=dict)  # msg_id -> the mailboxes that want its receipts
    runs: list[tuple[str, str]] = field(default_factory=list)  # (msg_id, process) for every start of a handler
    handed: list[str] = field(default_factory=list)  # msg_id for every hand-over
    effects: list[str] = field(default_factory=list)  # msg_id for every effect that a handler has guarded
    broken: list[str] = field(default_factory=list)
    _completed: set[LegKey] = field(default_factory=set)
    _mail: dict[tuple[str, str], dict[str, Any]] = field(default_factory=dict)

    def see(self, process: Process, step: str, args: tuple[Any, ...], result: Any) -> None:
        """A step was done, whether or not its caller will hear of it."""
        if step == "submit" or (step == "requeue" and result):
            envelope = decode(args[2])
            self.accepted.setdefault(envelope.msg_id, set()).update([envelope.reply_to] if envelope.reply_to else [])
            if envelope.round > 1:
                self._completed = {key for key in self._completed if key[0] != envelope.msg_id}
        elif step == "settle":
            self._settled(args[2], result)
        elif step == "take":
            self._taken(process, result)
        elif step == "read_mail":
            self.read_mail(args[0], result)

    def _settled(self, settlements: list[Settlement], verdicts: list[SettleVerdict]) -> None:
        for one, verdict in zip(settlements, verdicts, strict=True):
            if verdict == "done" and one.answer.status != "retryable":
                self._completed.add((one.msg_id, one.leg))

    def _taken(self, process: Process, result: TakeResult) -> None:
        for taken in result.taken:
            self.handed.append(taken.msg_id)
            if (taken.msg_id, taken.leg) in self._completed:
                self.broken.append(f"handed to {process.name} after its completion: {_name(taken)}")

    def read_mail(self, mailbox: str, entries: list[MailEntry]) -> None:
        """Receipts were read, or still lie there."""
        for entry in entries:
            if entry.kind == "receipt":
                self._mail[mailbox, entry.id] = json.loads(entry.data)

    def started(self, msg_id: str, process: Process) -> None:
        """A handler begins."""
        self.runs.append((msg_id, process.name))

    async def book(self, msg_id: str) -> None:
        """An effect is made."""
        self.effects.append(msg_id)

    def answered(self, mailbox: str, msg_id: str, leg: int, round: int) -> bool:
        """Whether a receipt for it, or a copy, came into that mailbox."""
        slot = Slot(mailbox, msg_id, leg, round)
        return any(_slot(box, receipt) == slot for (box, _), receipt in self._mail.items())

    def slots(self) -> Mapping[Slot, int]:
        """How many terminal receipts came into each place, without those that were sent again for a duplicate."""
        return Counter(_slot(box, receipt) for (box, _), receipt in self._mail.items() if not receipt["stored"])


def _slot(mailbox: str, receipt: dict[str, Any]) -> Slot:
    return Slot(mailbox, receipt["msg_id"], receipt["leg"], receipt["round"])


def _name(taken: Taken) -> str:
    return f"{taken.msg_id} leg {taken.leg} attempt {taken.attempt}"
