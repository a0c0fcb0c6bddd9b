"""What all commands share: where Redis is, how an error becomes an exit status, and how a coroutine is run."""

import asyncio
import os
import re
import sys
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, NoReturn, TypeVar

import click
import msgspec

from reach import ids
from reach.backend import Backend, open_backend
from reach.clock import SystemClock
from reach.errors import BackendError, ConfigError, EnvelopeError, ReachError
from reach.sdk import nobody
from reach.settings import DEFAULT_URL

OK, FAILED, USAGE, UNAVAILABLE, TRY_LATER, CONFIG, INTERRUPTED = 0, 1, 2, 69, 75, 78, 130

#: What moves a cursor, sets a title or turns text around in a terminal: C0 but tab and newline, DEL, C1, and the marks of direction.
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")

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
        help="The address of Redis or Valkey.", callback=shared,
    )  # fmt: skip
    env = click.option(
        "--env", metavar="ENV", envvar="REACH_ENV", default=ids.DEFAULT_ENV, show_default=True, show_envvar=True,
        help="The environment.",
    )  # fmt: skip
    return url(env(command))


def shared(_context: click.Context, _option: click.Parameter, url: str | None) -> str | None:
    """An address that other processes can have, too.

    Raises:
        ConfigError: `memory://` lives in one process.
    """
    if url is not None and url.startswith("memory:"):
        raise ConfigError(
            "memory:// lives inside one process, so no command reaches it: start `reach dev`, or say redis://..."
        )
    return url


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


@asynccontextmanager
async def opened(url: str, env: str) -> AsyncIterator[Backend]:
    """A backend that is open inside."""
    backend = open_backend(url, env=env)
    try:
        await backend.open()
        yield backend
    finally:
        await backend.close()


def say(text: str) -> None:
    """Talk, to stderr."""
    click.echo(readable(text), err=True)


def show(text: str) -> None:
    """Print what was made for people: it may hold what others have written, which must not steer the terminal."""
    click.echo(readable(text))


def data(text: str) -> None:
    """Print data. As it is into a file or a pipe; to a terminal as `show`."""
    click.echo(
        readable(text) if sys.stdout.isatty() else text, color=True
    )  # else click takes sequences out of a pipe's data


def readable(text: str) -> str:
    """Control characters and marks of direction as escapes; newlines and tabs stay."""
    return _CONTROL.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def brief(text: str, most: int = ids.TEXT_MAX) -> str:
    """A text that others have written as part of a line: no line break, nothing that steers the terminal, at most so many characters.

    `most`: No name of ours is longer than 256. What is left out is an ellipsis.
    """
    seen = text[: most + 1].replace("\n", "\\n").replace("\t", "\\t")
    seen = readable(seen)
    return seen if len(seen) <= most else f"{seen[: most - 1]}…"


def briefly(texts: Sequence[str], most: int = 20) -> str:
    """Some such texts, with commas, and how many more there are."""
    told = ", ".join(map(brief, texts[:most]))
    return f"{told} and {len(texts) - most} more" if len(texts) > most else told


def complaining(backend: Backend, url: str, env: str) -> AbstractAsyncContextManager[None]:
    """Inside, people are told once if no worker serves the env."""
    return nobody.complaining(backend, SystemClock(), lambda: say(f"reach: {nobody.sentence(url, env)}"))


async def complain_if_nobody_serves(backend: Backend, url: str, env: str) -> None:
    """Tell people now if no worker serves the env."""
    if await nobody.nobody_serves(backend):
        say(f"reach: {nobody.sentence(url, env)}")


def as_json(value: Any, *, indent: int = 2) -> str:
    """A value as JSON text; 0: on one line."""
    data = msgspec.json.encode(value)
    return (msgspec.json.format(data, indent=indent) if indent else data).decode()


def table(rows: list[tuple[str, ...]]) -> str:
    """Rows in columns, the first row as their head."""
    rows = [tuple(readable(cell).replace("\n", "\\n").replace("\t", " ") for cell in row) for row in rows]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    )
