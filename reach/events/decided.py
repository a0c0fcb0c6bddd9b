"""Why a message went where it went, as the routers have recorded it. Pure."""

import sys
from collections.abc import Iterable
from typing import Any

import msgspec

from reach.envelope.policy_digest import NO_POLICY
from reach.events.fields import Record, counts_of, dict_of, int_of, text_of
from reach.events.runs import Run
from reach.events.traced import Mark, trace_of


class Looked(msgspec.Struct, frozen=True):
    """An agent that was looked at.

    Attributes:
        filter, reason: Which filter refused it, and why in words; "" = it fitted.
        score: What it weighed in the draw; None: nobody was weighed.
        share: Its part of all scores: how likely the draw was to choose it, where the strategy goes by scores alone.
        chosen: It got the message.
    """

    agent: str
    filter: str = ""
    reason: str = ""
    score: float | None = None
    share: float | None = None
    chosen: bool = False


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    """One decision: at first, after a run that was not the last, or about a message that nobody can take.

    Attributes:
        at_us: When it was applied, by the clock of Redis.
        leg, attempt: What it is about; attempt 0: the first, for all legs.
        strategy: Which one chose; "" = none had to.
        policy: The digest of the policy that held, `none`: the default did; "" = it is not recorded.
        chosen: Who got it.
        via: The fallback that it went by; "" = those who answer the pattern itself.
        tier: The tier that it needed, and why.
        code: Where it ended here: with this code.
        counts: How many matched, how many fitted, how many each filter refused.
        candidates: At most 20 of them.
        decided_us: How long the router took.
        worker: Which router.
    """

    at_us: int
    leg: int = 0
    attempt: int = 0
    pattern: str = ""
    strategy: str = ""
    policy: str = ""
    chosen: tuple[str, ...] = ()
    via: str = ""
    tier: str = ""
    code: str = ""
    counts: dict[str, int] = {}
    candidates: tuple[Looked, ...] = ()
    decided_us: int = 0
    worker: str = ""


class Decisions(msgspec.Struct, frozen=True, kw_only=True):
    """All decisions about one message, and what came of them.

    Attributes:
        policy: What the env says of the pattern now (JSON); None: nothing, so the default holds. Each decision says which one held then.
        policy_digest: Its digest, as decisions name theirs; `none` where the default holds.
        runs: Every run, in order; `marks`: what else happened to it.
        code: How it ended; `open`: it has not, or nobody has recorded it.
    """

    msg_id: str
    pattern: str = ""
    type: str = ""
    schema: str = ""
    began_at_us: int = 0
    policy: msgspec.Raw | None = None
    policy_digest: str = NO_POLICY
    decisions: tuple[Decision, ...] = ()
    runs: tuple[Run, ...] = ()
    marks: tuple[Mark, ...] = ()
    code: str = ""
    open: bool = True


def decisions_of(msg_id: str, records: Iterable[Record]) -> Decisions | None:
    """What is recorded of a message; None: nothing."""
    own = [record for record in records if record.get("msg_id") == msg_id]
    messages = trace_of(msg_id, own).messages
    if not messages:
        return None
    told = sorted(
        (one for one in own if dict_of(one, "counts").keys() & {"matched", "fit"}), key=lambda one: int_of(one, "at_us")
    )
    (message,) = messages
    return Decisions(
        msg_id=msg_id,
        pattern=message.pattern,
        type=message.type,
        schema=message.schema,
        began_at_us=message.began_at_us,
        decisions=tuple(map(_decision, told)),
        runs=message.runs,
        marks=tuple(mark for mark in message.marks if mark.point != "route.matched"),
        code=message.code,
        open=message.open,
    )


def _decision(record: Record) -> Decision:
    chosen = tuple(filter(None, text_of(record, "chosen").split(",")))
    listed = record.get("candidates")
    seen: list[dict[str, Any]] = [one for one in listed if isinstance(one, dict)] if isinstance(listed, list) else []
    total = sum(_score(one) or 0 for one in seen)
    return Decision(
        at_us=int_of(record, "at_us"),
        leg=int_of(record, "leg"),
        attempt=int_of(record, "attempt"),
        pattern=text_of(record, "pattern"),
        strategy=text_of(record, "strategy"),
        policy=text_of(record, "policy"),
        chosen=chosen,
        via=text_of(record, "fallback"),
        tier=text_of(record, "tier"),
        code=text_of(record, "code"),
        counts=counts_of(record),
        candidates=tuple(_looked(one, chosen, total) for one in seen),
        decided_us=int_of(record, "duration_us"),
        worker=text_of(record, "worker"),
    )


def _looked(seen: dict[str, Any], chosen: tuple[str, ...], total: float) -> Looked:
    score, agent = _score(seen), text_of(seen, "agent")
    share = score / total if score is not None and total > 0 else None
    return Looked(agent, text_of(seen, "filter"), text_of(seen, "reason"), score, share, agent in chosen)


def _score(seen: dict[str, Any]) -> float | None:
    score = seen.get("score")
    if not isinstance(score, int | float) or isinstance(score, bool):
        return None
    return float(score) if 0 <= score <= sys.float_info.max else None
