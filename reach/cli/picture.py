"""The picture of a trace: a tree on a timeline, as text."""

from collections.abc import Iterator
from datetime import UTC, datetime

import msgspec

from reach.events.traced import Mark, Message, Run, Trace

WIDTH = 24
#: so many processes that ended without a word are told one by one
MAX_LOST = 5
LAST_US = 253_402_300_799_999_999  # the end of the year 9999, behind which there is no date


class Row(msgspec.Struct, frozen=True):
    """One line. From `at_us` to `until_us`; until `began_us` it waits. None: it is a moment, or goes on."""

    at_us: int
    label: str
    began_us: int | None = None
    until_us: int | None = None
    below: tuple["Row", ...] = ()


def lines_of(trace: Trace) -> list[str]:
    """A head, and a line for each message, run and event, in order of time; `.` waits, `#` runs, `|` is a moment."""
    lines = [_head(trace)]
    for message in trace.messages:
        lines += _drawn(_row(message), trace, "", "")
    if trace.missing:
        lines.append(
            f"{trace.missing} records (of any conversation) were lost meanwhile: something may be missing here"
        )
    for lost in trace.lost[:MAX_LOST]:
        where = f" on {lost.node}" if lost.node else ""
        between = f"between {moment(lost.since_us)} and {moment(lost.until_us)}"
        lines.append(f"{lost.worker}{where} ended without a word: records of it may be missing {between}")
    if len(trace.lost) > MAX_LOST:
        lines.append(f"so did {len(trace.lost) - MAX_LOST} more processes (--json names them)")
    if trace.cut:
        lines.append("there are more records: the oldest were left out")
    return lines


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
    what = f"conversation {', '.join(trace.conversations[:3]) or '?'}"
    return (
        f"{what}: {_many(trace.count, 'message')}, {_many(runs, 'run')}, {took} from {moment(trace.began_at_us)}{state}"
    )


def _many(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def _row(message: Message) -> Row:
    told = [message.pattern or "?", message.msg_id]
    told += [f"from {message.source}"] if message.source else []
    told += (
        [" ".join(part for part in (message.type, message.schema) if part)] if message.type or message.schema else []
    )
    end = message.code or "no end recorded"
    took = spoken(message.ended_at_us - message.began_at_us)
    rows = [Row(mark.at_us, mark_told(mark, legs=_has_legs(message))) for mark in message.marks]
    rows += [_run_row(message, number, run) for number, run in enumerate(message.runs)]
    rows += [_row(child) for child in message.children if child.in_run is None]
    rows.sort(key=lambda row: row.at_us)  # of one moment the choice comes before what was chosen
    label = f"{'  '.join(told)}: {end}, {took}"
    return Row(message.began_at_us, label, message.began_at_us, message.ended_at_us, tuple(rows))


def _run_row(message: Message, number: int, run: Run) -> Row:
    at_us = next(at for at in (run.sent_at_us, run.began_at_us, run.ended_at_us) if at is not None)
    children = [_row(child) for child in message.children if child.in_run == number]
    return Row(at_us, run_told(run, legs=_has_legs(message)), run.began_at_us, run.ended_at_us, tuple(children))


def run_told(run: Run, *, legs: bool = False) -> str:
    """A run in words. `legs`: also of which leg."""
    who = "/".join(part for part in (run.agent, run.instance) if part) or "?"
    told = [f"waited {spoken(run.wait_us)}"] if run.wait_us is not None else []
    told += [f"ran {spoken(run.run_us)}"] if run.run_us is not None else []
    told += [run.code] if run.code else ["not begun" if run.began_at_us is None else "no end recorded"]
    leg = f"leg {run.leg} " if legs else ""
    leg += f"round {run.round} " if run.round > 1 else ""
    where = f" on {run.host}" if run.host else ""
    return f"{leg}run {run.attempt} {who}{where}{' (moved)' if run.moved else ''}: {', '.join(told)}"


def mark_told(mark: Mark, *, legs: bool = False) -> str:
    """What else happened in words."""
    leg = f"leg {mark.leg} " if legs and mark.point not in {"route.matched", "message.received"} else ""
    leg += f"round {mark.round} " if mark.round > 1 else ""
    told = [f"{mark.counts.get('fit', 0)} of {mark.counts['matched']} fit"] if "matched" in mark.counts else []
    told += [f"{mark.strategy} chose {mark.chosen}"] if mark.chosen and mark.strategy else []
    told += [f"fallback {mark.via}"] if mark.via else []
    told += [f"run {mark.attempt}"] if mark.attempt and mark.point != "route.matched" else []
    told += [mark.agent] if mark.agent else []
    told += [mark.code] if mark.code else []
    told += [f"waits {spoken(mark.counts['wait_ms'] * 1000)}"] if "wait_ms" in mark.counts else []
    return f"{leg}{mark.point}: {', '.join(told)}" if told else f"{leg}{mark.point}"


def _has_legs(message: Message) -> bool:
    return any(run.leg for run in message.runs) or any(mark.leg for mark in message.marks)


def _drawn(row: Row, trace: Trace, before: str, below: str) -> Iterator[str]:
    offset = f"+{spoken(row.at_us - trace.began_at_us)}"
    yield f"{offset:>12}  {_bar(row, trace)}  {before}{row.label}"
    for number, child in enumerate(row.below):
        is_last = number == len(row.below) - 1
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
