"""What all commands share: where Redis is, how an error becomes an exit status, and how a coroutine is run."""

import asyncio
import os
import sys
from collections.abc import Callable, Coroutine
from typing import Any, NoReturn, TypeVar

import click
import msgspec

from reach import ids
from reach.errors import BackendError, ConfigError, EnvelopeError, ReachError
from reach.settings import DEFAULT_URL

OK, FAILED, USAGE, UNAVAILABLE, TRY_LATER, CONFIG, INTERRUPTED = 0, 1, 2, 69, 75, 78, 130

T = TypeVar("T")
Command = Callable[..., Any]


class Commands(click.Group):
    """A group that ends every error in its exit status and one sentence on stderr."""

    def main(self, *args: Any, **extra: Any) -> NoReturn:
        """Run and exit."""
        extra["standalone_mode"] = False
        try:
            status = super().main(*args, **extra)
        except click.Abort:
            sys.exit(INTERRUPTED)
        except click.ClickException as error:
            error.show()
            sys.exit(error.exit_code)
        except ReachError as error:
            say(f"reach: {error.message or error.code}")
            sys.exit(status_of(error))
        except BrokenPipeError:
            # Whoever read us (head, grep -q) has enough. Python would complain again when it flushes at the end.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            sys.exit(FAILED)
        sys.exit(status if isinstance(status, int) else OK)


def status_of(error: ReachError) -> int:
    """The exit status of an error."""
    if isinstance(error, ConfigError):
        return CONFIG
    if isinstance(error, EnvelopeError):
        return USAGE
    if isinstance(error, BackendError):
        return UNAVAILABLE
    return TRY_LATER if error.retryable else FAILED


def with_place(command: Command) -> Command:
    """The options that say where Redis is and in which env."""
    url = click.option(
        "--redis-url", metavar="URL", envvar="REACH_REDIS_URL", default=DEFAULT_URL, show_default=True, show_envvar=True,
        help="The address of Redis or Valkey.",
    )  # fmt: skip
    env = click.option(
        "--env", metavar="ENV", envvar="REACH_ENV", default=ids.DEFAULT_ENV, show_default=True, show_envvar=True,
        help="The environment.",
    )  # fmt: skip
    return url(env(command))


def with_output(*forms: str) -> Callable[[Command], Command]:
    """The option that says in which form data is printed; the first is the default."""
    return click.option(
        "-o",
        "--output",
        "form",
        type=click.Choice(forms),
        default=forms[0],
        show_default=True,
        help="The form of the output.",
    )


def run(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end. Ctrl-C cancels it and ends the command with 130."""
    return asyncio.run(work)


def say(text: str) -> None:
    """Talk, to stderr."""
    click.echo(text, err=True)


def as_json(value: Any, *, indent: int = 2) -> str:
    """A value as JSON text; 0: on one line."""
    data = msgspec.json.encode(value)
    return (msgspec.json.format(data, indent=indent) if indent else data).decode()


def table(rows: list[tuple[str, ...]]) -> str:
    """Rows in columns, the first row as their head."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    )
