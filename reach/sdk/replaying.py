"""Sends recordings once more: with new ids, in the order in which they came, each when the one before has been answered."""

from collections.abc import AsyncIterator, Iterable
from typing import Any, Literal

import msgspec

from reach.envelope.message import Envelope
from reach.events.recordings import Answer, Difference, Recording, differences
from reach.ids import new_msg_id
from reach.sdk.client import Reach
from reach.sdk.options import Options
from reach.sdk.receipts import Receipt, Receipts

#: The header that says which message this one repeats.
REPLAY_OF = "reach-replay-of"
_NOT_AGAIN = frozenset({"reach-history", REPLAY_OF})


class Replayed(msgspec.Struct, frozen=True, kw_only=True):
    """What came of one recording.

    Attributes:
        replay_of: The message that was recorded.
        msg_id, correlation_id: What it went as.
        codes: How it ended now: one for each leg.
        ok: All of them were a success.
        compared: "answers": the recorded answer with the new one; "codes": only how they ended, since the answer is not recorded.
        differences: Between what was answered then and now.
    """

    replay_of: str
    msg_id: str = ""
    correlation_id: str = ""
    target: str = ""
    codes: tuple[str, ...] = ()
    ok: bool = False
    compared: Literal["answers", "codes"] = "codes"
    differences: tuple[Difference, ...] = ()


async def replay(reach: Reach, recordings: Iterable[Recording], *, to: str | None = None) -> AsyncIterator[Replayed]:
    """Send those that have an envelope, one after the other. Each conversation becomes a new one.

    Args:
        reach: A client of the env in which they are to run.
        recordings: In the order in which they are to be sent.
        to: Another target for all of them; then no stages are gone through.

    Raises:
        BackendError: As `Reach.request`.
    """
    conversations: dict[str, str] = {}
    for recording in recordings:
        if recording.envelope is None:
            continue
        conversation = conversations.setdefault(recording.correlation_id or recording.msg_id, new_msg_id())
        yield await _sent(reach, recording, recording.envelope, conversation, to)


async def _sent(reach: Reach, recording: Recording, envelope: Envelope, conversation: str, to: str | None) -> Replayed:
    target, body = to or envelope.target.pattern, envelope.payload.body
    options = options_of(recording.msg_id, envelope, conversation, stages=to is None)
    receipts: Receipts[Any] | list[Receipt[Any]]
    if envelope.target.scope == "all":
        receipts = await reach.request(target, body if bytes(body) else None, scope="all", **options)
    else:
        receipts = [await reach.request(target, body if bytes(body) else None, **options)]
    told = list(receipts)
    was, now, compared = _both(recording, told)
    return Replayed(
        replay_of=recording.msg_id,
        msg_id=told[0].msg_id if told else "",
        correlation_id=conversation,
        target=target,
        codes=tuple(receipt.code for receipt in told),
        ok=bool(told) and all(receipt.ok for receipt in told),
        compared=compared,
        differences=differences(was, now),
    )


def options_of(msg_id: str, envelope: Envelope, conversation: str, *, stages: bool = True) -> Options:
    """What the envelope says beside target and body; not its key and its moment: it is a message of its own, and goes now."""
    needs = msgspec.to_builtins(envelope.needs) if envelope.needs is not None else None
    headers = {name: value for name, value in envelope.headers.items() if name not in _NOT_AGAIN}
    options: Options = {
        "type": envelope.type,
        "schema": envelope.payload.schema,
        "priority": min(max(envelope.priority, 1), 10),
        "max_attempts": min(max(envelope.max_attempts, 1), 10),
        "headers": {**headers, REPLAY_OF: msg_id},
        "correlation_id": conversation,
        "order_key": envelope.order_key,
        "min_confidence": envelope.min_confidence,
        "needs": {name: value for name, value in needs.items() if value is not None} if needs else None,
        "budget": envelope.budget,
        "ttl": max(envelope.ttl_ms, 1) / 1000,
    }
    if envelope.timeouts.total_ms is not None:
        options["timeout"] = max(envelope.timeouts.total_ms, 1) / 1000
    if stages and envelope.process_order is not None:
        options["process_order"] = envelope.process_order
    return options


def _both(recording: Recording, receipts: list[Receipt[Any]]) -> tuple[Any, Any, Literal["answers", "codes"]]:
    """What is compared: of one leg its answer, whoever gave it; of several those of each agent; else only the codes."""
    if recording.answers:
        now = {receipt.target_agent or "": _answer(receipt) for receipt in receipts}
        if len(now) == len(recording.answers) == 1:
            return next(iter(recording.answers.values())), next(iter(now.values())), "answers"
        return recording.answers, now, "answers"
    codes = [receipt.code for receipt in receipts]
    return {"code": recording.code}, {"code": codes[0] if len(codes) == 1 else f"{len(codes)} legs"}, "codes"


def _answer(receipt: Receipt[Any]) -> Answer:
    return {"status": receipt.status.value, "code": receipt.code, "output": receipt.output}
