"""What `reach events search` and `reach tail` look for, as options."""

import re
from datetime import UTC, datetime
from typing import Any

import click

from reach.cli import edge
from reach.events.store import Query

_UNITS_US = {"s": 1_000_000, "m": 60_000_000, "h": 3_600_000_000, "d": 86_400_000_000}
_AGO = re.compile(r"(\d{1,9})([smhd])").fullmatch
_NUMBER = re.compile(r"\d{1,12}(\.\d{1,6})?").fullmatch
#: Options that may come again; any of their values fits.
NAMES = ("agent", "type", "schema", "code", "point", "msg_id", "correlation_id")

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


def with_filters(command: edge.Command) -> edge.Command:
    """The options, which come as one argument for each, and `since`."""
    options = (
        click.option("--agent", multiple=True, help="Of this agent; again for more, as all of these."),
        click.option("--type", multiple=True, help="Of this message type."),
        click.option("--schema", multiple=True, help="Of this schema."),
        click.option("--code", multiple=True, help="With this code."),
        click.option("--point", multiple=True, help="At this point, such as message.retried."),
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
