"""What an env has stored by name (policies, rules, schemas), as commands take it, show it and list it."""

from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import TypeVar

import click
import msgspec

from reach.backend import Backend
from reach.cli import edge

T = TypeVar("T")


def on_backend(url: str, env: str, work: Callable[[Backend], Awaitable[T]]) -> T:
    """Do some work on the backend of an env, which is opened for it."""

    async def done() -> T:
        async with edge.opened(url, env) as backend:
            return await work(backend)

    return edge.run(done())


def given(text: str) -> bytes:
    """What an argument hands over: itself, or with @ the bytes of a file. Raises click.UsageError where that cannot be read."""
    if not text.startswith("@"):
        return text.encode("utf-8", "surrogateescape")
    try:
        return Path(text[1:]).read_bytes()
    except OSError as error:
        raise click.UsageError(f"{text[1:]} cannot be read: {error.strerror}") from error


def value_of(data: bytes) -> object:
    """Stored JSON; what is none (somebody has written there by hand, or it was buried for that) as text."""
    try:
        return msgspec.json.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return data.decode("utf-8", "replace")


def list_entries(of: str, what: str, entries: Sequence[tuple[str, bytes, str]], form: str, nothing: str) -> None:
    """List name, value and problem of each. `of`, `what`: what name and value are; `nothing`: what is said where there is none."""
    if form == "json":
        told = [{of: name, what: value_of(data), "problem": problem or None} for name, data, problem in entries]
        edge.data(edge.as_json(told))
    elif entries:
        rows = [(name, data.decode("utf-8", "replace"), problem or "-") for name, data, problem in entries]
        edge.show(edge.table([(of.upper(), what.upper(), "PROBLEM"), *rows]))
    else:
        edge.say(nothing)
