"""What the commands share that ask for hop records: where they are kept, and how one is printed."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import click

from reach.cli import edge
from reach.cli.picture import moment
from reach.events.asking import Events, moment_of
from reach.events.opening import open_store
from reach.settings import safe_url


def with_store(command: edge.Command) -> edge.Command:
    """The option that names an event store."""
    return click.option(
        "--event-store",
        "store",
        metavar="URL",
        envvar="REACH_EVENT_STORE",
        show_envvar=True,
        help="What an archiver fills, such as sqlite:<folder> (docs/events.md); without it there is only what Redis keeps, of a day.",
    )(command)


@asynccontextmanager
async def asking(url: str, env: str, store: str | None) -> AsyncIterator[Events]:
    """Questions to an env and its store, inside."""
    kept = open_store(store) if store else None
    try:
        async with edge.opened(url, env) as backend:
            yield Events(backend, kept)
    finally:
        if kept is not None:
            await kept.close()


def nothing_of(name: str, env: str, store: str | None) -> int:
    """Say that nothing is recorded."""
    edge.say(f"reach: no records of {name} in {place_of(env, store)}")
    return edge.FAILED


def place_of(env: str, store: str | None) -> str:
    """Where was looked, and where else there may be more."""
    if not store:
        return f"env {env}, which keeps a day; --event-store names what keeps more"
    return f"env {env} and {safe_url(store)}"


def line_of(record: dict[str, Any]) -> str:
    """A record on one line."""
    who = [edge.brief(str(record[name])) for name in ("agent", "chosen", "via", "code") if record.get(name)]
    msg_id, point = (edge.brief(str(record.get(name) or "")) for name in ("msg_id", "point"))
    leg = edge.brief(str(record.get("leg", 0)))
    return f"{moment(moment_of(record))}  {msg_id:36}  {leg}  {point:18}  {' '.join(who)}".rstrip()


def tell(record: dict[str, Any], form: str) -> None:
    """Print a record on one line, for people or (ndjson) as data."""
    if form == "ndjson":
        edge.data(edge.as_json(record, indent=0))
    else:
        edge.show(line_of(record))
