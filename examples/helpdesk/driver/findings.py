"""What a run has shown, and whether it kept the promises. Pure: receipts, run log and hop records go in."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from examples.helpdesk.driver.conversation import STEPS, Conversation
from examples.helpdesk.driver.strike import Strike
from examples.helpdesk.run_log import Line
from reach import Receipt

Record = Mapping[str, Any]

#: codes that a question of ours may end with besides ok: the agent has decided, nothing went wrong on the way
_DECIDED = frozenset({"ok", "handler.rejected"})


@dataclass(frozen=True)
class Rerouted:
    """A message that another agent than the first one answered.

    `after_ms`: from the kill, or from when it came into the inbox of the dead agent, to the start of the run elsewhere.
    """

    msg_id: str
    agent: str
    attempts: int
    after_ms: int
    held: bool  # begun when the agent was killed; else it lay in its inbox


def statuses(talks: Iterable[Conversation]) -> list[tuple[str, str, Counter[str]]]:
    """(status, code, how many per step) of all receipts."""
    counts: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    for talk in talks:
        for step, receipt in zip(STEPS, talk.receipts, strict=False):
            counts[receipt.status.value, receipt.code][step] += 1
    return [(status, code, per_step) for (status, code), per_step in sorted(counts.items())]


def rerouted(
    talks: Iterable[Conversation], runs: Sequence[Line], records: Sequence[Record], struck: Strike
) -> list[Rerouted]:
    """What the others took over from the killed agent, the slowest first: by the run log and the records, not by guessing."""
    came_at_ms = {
        record["msg_id"]: int(record["at_us"]) // 1000
        for record in records
        if record["point"] == "route.sent" and record.get("agent") == struck.agent
    }
    later = {
        line.msg_id: line for line in reversed(runs)
        if line.what == "start" and line.agent != struck.agent and line.at_ms >= struck.at_ms
    }  # fmt: skip
    found = []
    for _, receipt in _receipts(talks):
        line = later.get(receipt.msg_id)
        held = receipt.msg_id in struck.held
        if line and (held or receipt.msg_id in came_at_ms):
            since_ms = max(struck.at_ms, came_at_ms.get(receipt.msg_id, 0))
            found.append(Rerouted(receipt.msg_id, line.agent, receipt.attempts, line.at_ms - since_ms, held))
    return sorted(found, key=lambda each: -each.after_ms)


def routed_by(records: Iterable[Record]) -> Counter[str]:
    """How many messages each router let in, by its records."""
    return Counter(str(record.get("worker", "")) for record in records if record["point"] == "message.received")


def broken(talks: Sequence[Conversation], runs: Iterable[Line], records: Iterable[Record]) -> list[str]:
    """Every promise that was broken, in a sentence each; empty is good."""
    return [*_lost(talks), *_twice(talks, runs, records)]


def _lost(talks: Sequence[Conversation]) -> Iterator[str]:
    for talk, receipt in _receipts(talks):
        if receipt.code not in _DECIDED:
            told = f" ({receipt.error_message})" if receipt.error_message else ""
            yield f"{talk.asked.id}: message {receipt.msg_id} got no answer but {receipt.status.value} {receipt.code}{told}"
    for talk in talks:
        if len(talk.receipts) < len(STEPS) and (not talk.receipts or talk.receipts[-1].ok):
            yield f"{talk.asked.id}: only {len(talk.receipts)} of {len(STEPS)} steps have a receipt"
    for msg_id, count in Counter(receipt.msg_id for _, receipt in _receipts(talks)).items():
        if count > 1:
            yield f"message {msg_id} has {count} terminal receipts"


def _twice(talks: Sequence[Conversation], runs: Iterable[Line], records: Iterable[Record]) -> Iterator[str]:
    answered = {
        receipt.msg_id: at_ms
        for talk in talks
        for receipt, at_ms in zip(talk.receipts, talk.arrived_at_ms, strict=True)
    }
    for line in runs:
        if line.what == "start" and line.at_ms > answered.get(line.msg_id, line.at_ms):
            yield f"message {line.msg_id} was run again by {line.agent} after its receipt had come"
    delivered = Counter(record["msg_id"] for record in records if record["point"] == "message.delivered")
    for msg_id, count in delivered.items():
        if count > 1 and msg_id in answered:
            yield f"message {msg_id} was delivered {count} times"


def _receipts(talks: Iterable[Conversation]) -> Iterator[tuple[Conversation, Receipt[Any]]]:
    for talk in talks:
        for receipt in talk.receipts:
            yield talk, receipt
