"""What `reach events search` and `reach tail` look for, as options."""

import re
from collections.abc import Iterable
from datetime import UTC, datetime
from difflib import get_close_matches
from typing import Any, Final, get_args

import click

from reach.cli import edge
from reach.envelope.codes import TABLE
from reach.events.store import Query
from reach.tracing.naming import DUPLICATE
from reach.tracing.record import LOST_PROCESS, TRIMMED, Point

_UNITS_US = {"s": 1_000_000, "m": 60_000_000, "h": 3_600_000_000, "d": 86_400_000_000}
_AGO = re.compile(r"(\d{1,9})([smhd])").fullmatch
_NUMBER = re.compile(r"\d{1,12}(\.\d{1,6})?").fullmatch
#: Options that may come again; any of their values fits.
NAMES = ("agent", "type", "schema", "code", "point", "msg_id", "correlation_id")
POINTS: Final[tuple[str, ...]] = get_args(Point)
#: Of receipts, and what only records say.
CODES: Final = frozenset({*(line.code for line in TABLE), DUPLICATE, LOST_PROCESS, TRIMMED, "input_required", "stale"})

Since = tuple[bool, int]
"""us: before now (True), or since 1970."""


class Moment(click.ParamType[Since]):
    """`2h` ago, or `2026-11-30T12:00:00`, with its offset from UTC or in UTC, or Unix seconds."""

    name = "MOMENT"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Since:
        """Read it."""
        text = str(value)
        ago = _AGO(text)
        if ago is not None:
            return True, int(ago[1]) * _UNITS_US[ago[2]]
        try:
            if _NUMBER(text):
                return False, round(float(text) * 1e6)
            at = datetime.fromisoformat(text)
            return False, round((at if at.tzinfo is not None else at.replace(tzinfo=UTC)).timestamp() * 1e6)
        except (ValueError, OverflowError):
            self.fail(f"{text!r} is no moment: say 45s, 30m, 2h or 7d ago, or 2026-11-30T12:00:00Z", param, ctx)


class AtPoint(click.ParamType[str]):
    """One of the points that records have."""

    name = "POINT"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """It, if there is such a point."""
        point = str(value)
        if point not in POINTS:
            self.fail(f"{point[:100]!r} is no point{meant(point, POINTS)}; there are {', '.join(POINTS)}", param, ctx)
        return point


def meant(said: str, known: Iterable[str]) -> str:
    """`: did you mean message.retried?`, where something like it is known; else nothing."""
    near = get_close_matches(said[:100], list(known), 1)
    return f": did you mean {near[0]}?" if near else ""


def strange_codes(codes: Iterable[str]) -> list[str]:
    """A sentence for each that reach does not know but knows one like it: agents may have codes of their own."""
    families = tuple(code[:-1] for code in CODES if code.endswith(".*"))
    strange = [code for code in codes if code not in CODES and not code.startswith(families)]
    near = [(code, meant(code, CODES)) for code in strange]
    return [f"{code[:100]} is no code of reach's own{did} (docs/codes.md)" for code, did in near if did]


def with_filters(command: edge.Command) -> edge.Command:
    """The options, which come as one argument for each, and `since`."""
    options = (
        click.option("--agent", multiple=True, help="Of this agent; again for more, as all of these."),
        click.option("--type", multiple=True, help="Of this message type."),
        click.option("--schema", multiple=True, help="Of this schema."),
        click.option("--code", multiple=True, help="With this code."),
        click.option("--point", type=AtPoint(), multiple=True, help="At this point, such as message.retried."),
        click.option("--msg-id", multiple=True, help="Of this message."),
        click.option("--correlation-id", multiple=True, help="Of this conversation."),
        click.option("--text", default="", help="That stands anywhere in the record."),
        click.option("--since", type=Moment(), help="2h (ago), or 2026-11-30T12:00:00Z."),
    )
    for option in reversed(options):
        command = option(command)
    return command


def query_of(said: dict[str, Any], now_us: int, max_found: int = 1_000) -> Query:
    """What was said. `now_us`: by the clock of Redis."""
    return Query(
        fields={name: tuple(said[name]) for name in NAMES if said[name]},
        since_us=at_us(said["since"], now_us, 0),
        until_us=at_us(said.get("until"), now_us, 1 << 62),
        text=said["text"],
        max_found=max_found,
    )


def at_us(moment: Since | None, now_us: int, default_us: int) -> int:
    """The moment, us."""
    if moment is None:
        return default_us
    is_ago, us = moment
    return max(now_us - us, 0) if is_ago else us
