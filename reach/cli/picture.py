"""The picture of a trace: a tree on a timeline, as text."""

from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from itertools import islice
from typing import TypeVar

import msgspec

from reach.cli.edge import brief
from reach.events.runs import Run
from reach.events.traced import Mark, Message, Trace
from reach.tracing.naming import DUPLICATE

T = TypeVar("T")
R = TypeVar("R")

WIDTH = 24
#: so many processes that ended without a word are told one by one
MAX_LOST = 5
#: So much is drawn in one place: the first of it and the last.
FIRST, LAST = 80, 20
#: So long is a whole picture.
MAX_LINES = 2_000
LAST_US = 253_402_300_799_999_999  # the end of the year 9999, behind which there is no date


class Row(msgspec.Struct, frozen=True):
    """One line. From `at_us` to `until_us`; until `began_us` it waits. None: it is a moment, or goes on."""

    at_us: int
    label: str
    began_us: int | None = None
    until_us: int | None = None
    below: Callable[[], Sequence["Row"]] = tuple


def lines_of(trace: Trace) -> list[str]:
    """A head, and a line for each message, run and event, in order of time; `.` waits, `#` runs, `|` is a moment.

    Of more than 100 in one place the first 80 and the last 20, and how many lie between; 2,000 lines in all.
    """
    lines = [_head(trace)]
    roots = folded([(message.began_at_us, message) for message in trace.messages], _row, _left_out)
    drawn = (line for row in roots for line in _drawn(row, trace, "", ""))
    lines += islice(drawn, MAX_LINES)
    if next(drawn, None) is not None:
        lines.append(f"the picture ends here, after {MAX_LINES} lines: --json has the rest")
    if trace.missing:
        lines.append(
            f"{trace.missing} records (of any conversation) were lost meanwhile: something may be missing here"
        )
    if trace.missing_batches:
        lines.append(
            f"{trace.missing_batches} batches of records (each of up to 100, of any conversation) were lost meanwhile: "
            "something may be missing here"
        )
    for lost in trace.lost[:MAX_LOST]:
        where = f" on {brief(lost.node)}" if lost.node else ""
        between = f"between {moment(lost.since_us)} and {moment(lost.until_us)}"
        lines.append(f"{brief(lost.worker)}{where} ended without a word: records of it may be missing {between}")
    if len(trace.lost) > MAX_LOST:
        lines.append(f"so did {len(trace.lost) - MAX_LOST} more processes (--json names them)")
    if trace.cut:
        lines.append("there are more records: the oldest were left out")
    return lines


def folded(told: Sequence[tuple[int, T]], made: Callable[[T], R], left_out: Callable[[int, int], R]) -> list[R]:
    """What is shown of what is told, in this order: all of it, or where there is too much the first and the last.

    Args:
        told: When it was, and what.
        made: What is shown of one.
        left_out: What stands for those between: when the first of them was, and how many there are.
    """
    between = told[FIRST:-LAST] if len(told) > FIRST + LAST else []
    if not between:
        return [made(one) for _, one in told]
    first, last = told[:FIRST], told[-LAST:]
    return [*(made(one) for _, one in first), left_out(between[0][0], len(between)), *(made(one) for _, one in last)]


def moment(at_us: int) -> str:
    """As people read it, UTC."""
    at_us = min(max(at_us, 0), LAST_US)
    return (
        datetime.fromtimestamp(at_us // 1_000_000, UTC)
        .replace(microsecond=at_us % 1_000_000)
        .strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]
    )


def spoken(us: int) -> str:
    """A duration: `0.3 ms`, `12 ms`, `1.204 s`, `3 min 5 s`."""
    ms = us / 1000
    if ms < 10:
        return f"{ms:.1f} ms"
    if ms < 1_000:
        return f"{ms:.0f} ms"
    return f"{ms / 1000:.3f} s" if ms < 120_000 else f"{ms // 60_000:.0f} min {ms % 60_000 / 1000:.0f} s"


def scored(score: float | None) -> str:
    """What an agent weighed in the draw, to three digits: `0.75`, `1000`; nothing weighed: `-`."""
    return "-" if score is None else f"{float(f'{score:.3g}'):.6g}"


def _head(trace: Trace) -> str:
    messages = trace.walk()
    runs = sum(len(message.runs) for message in messages)
    took = spoken(trace.ended_at_us - trace.began_at_us)
    state = ", under way" if any(message.open for message in messages) else ""
    what = f"conversation {', '.join(map(brief, trace.conversations[:3])) or '?'}"
    return (
        f"{what}: {_many(trace.count, 'message')}, {_many(runs, 'run')}, {took} from {moment(trace.began_at_us)}{state}"
    )


def _many(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def _left_out(at_us: int, number: int) -> Row:
    return Row(at_us, f"... and {number} more: --json has all")


def _row(message: Message) -> Row:
    told = [brief(message.pattern) or "?", brief(message.msg_id)]
    told += [f"from {brief(message.source)}"] if message.source else []
    of = " ".join(brief(part) for part in (message.type, message.schema) if part)
    told += [of] if of else []
    end = brief(message.code) or "no end recorded"
    took = spoken(message.ended_at_us - message.began_at_us)
    label = f"{'  '.join(told)}: {end}, {took}"
    return Row(message.began_at_us, label, message.began_at_us, message.ended_at_us, lambda: _below(message))


def _below(message: Message) -> list[Row]:
    """What happened to it, in order of time. Only what is drawn is made."""
    legs = has_legs(message.runs, message.marks)
    sent: dict[int | None, list[Message]] = {}
    for child in message.children:
        sent.setdefault(child.in_run, []).append(child)

    def of_mark(mark: Mark) -> Callable[[], Row]:
        return lambda: Row(mark.at_us, mark_told(mark, legs=legs))

    def of_run(run: Run, at_us: int, children: Sequence[Message]) -> Callable[[], Row]:
        below = [(child.began_at_us, child) for child in children]
        return lambda: Row(
            at_us,
            run_told(run, legs=legs),
            run.began_at_us,
            run.ended_at_us,
            lambda: folded(below, _row, _left_out),
        )

    def of_child(child: Message) -> Callable[[], Row]:
        return lambda: _row(child)

    told = [(mark.at_us, of_mark(mark)) for mark in message.marks]
    for number, run in enumerate(message.runs):
        at_us = begin_of(run)
        told.append((at_us, of_run(run, at_us, sent.get(number, ()))))
    told += [(child.began_at_us, of_child(child)) for child in sent.get(None, ())]
    told.sort(key=lambda one: one[0])  # of one moment the choice comes before what was chosen
    return folded(told, lambda made: made(), _left_out)


def begin_of(run: Run) -> int:
    """The first moment of it that is recorded; 0 where there is none."""
    return next((at for at in (run.sent_at_us, run.began_at_us, run.ended_at_us) if at is not None), 0)


def run_told(run: Run, *, legs: bool = False) -> str:
    """A run in words. `legs`: also of which leg."""
    who = "/".join(brief(part) for part in (run.agent, run.instance) if part) or "?"
    told = [f"waited {spoken(run.wait_us)}"] if run.wait_us is not None else []
    told += [f"ran {spoken(run.run_us)}"] if run.run_us is not None else []
    told += [brief(run.code)] if run.code else ["not begun" if run.began_at_us is None else "no end recorded"]
    leg = f"leg {run.leg} " if legs else ""
    leg += f"round {run.round} " if run.round > 1 else ""
    where = f" on {brief(run.host)}" if run.host else ""
    return f"{leg}run {run.attempt} {who}{where}{' (moved)' if run.moved else ''}: {', '.join(told)}"


def mark_told(mark: Mark, *, legs: bool = False) -> str:
    """What else happened in words."""
    leg = f"leg {mark.leg} " if legs and mark.point not in {"route.matched", "message.received"} else ""
    leg += f"round {mark.round} " if mark.round > 1 else ""
    told = [f"{mark.counts.get('fit', 0)} of {mark.counts['matched']} fit"] if "matched" in mark.counts else []
    told += [f"{brief(mark.strategy)} chose {brief(mark.chosen)}"] if mark.chosen and mark.strategy else []
    told += [f"fallback {brief(mark.via)}"] if mark.via else []
    told += [f"run {mark.attempt}"] if mark.attempt and mark.point != "route.matched" else []
    told += [brief(mark.agent)] if mark.agent else []
    told += [brief(mark.code)] if mark.code else []
    told += ["of a copy"] if mark.copy and mark.code != DUPLICATE else []
    told += [f"waits {spoken(mark.counts['wait_ms'] * 1000)}"] if "wait_ms" in mark.counts else []
    return f"{leg}{brief(mark.point)}: {', '.join(told)}" if told else f"{leg}{brief(mark.point)}"


def has_legs(runs: Sequence[Run], marks: Sequence[Mark]) -> bool:
    """Whether it went to several."""
    return any(run.leg for run in runs) or any(mark.leg for mark in marks)


def _drawn(row: Row, trace: Trace, before: str, below: str) -> Iterator[str]:
    offset = f"+{spoken(row.at_us - trace.began_at_us)}"
    yield f"{offset:>12}  {_bar(row, trace)}  {before}{row.label}"
    rows = row.below()
    for number, child in enumerate(rows):
        is_last = number == len(rows) - 1
        yield from _drawn(child, trace, below + ("└─ " if is_last else "├─ "), below + ("   " if is_last else "│  "))


def _bar(row: Row, trace: Trace) -> str:
    whole = max(trace.ended_at_us - trace.began_at_us, 1)

    def cell(at_us: int) -> int:
        return min(max((at_us - trace.began_at_us) * WIDTH // whole, 0), WIDTH - 1)

    first = cell(row.at_us)
    if row.began_us is None and row.until_us is None:
        return (" " * first + "|").ljust(WIDTH)
    last = cell(row.until_us) if row.until_us is not None else WIDTH - 1  # it goes on
    begun = cell(row.began_us) if row.began_us is not None else last + 1
    cells = (" " if at < first or at > last else "." if at < begun else "#" for at in range(WIDTH))
    return "".join(cells)
