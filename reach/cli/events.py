"""`reach events`: the hop records as they were written, of everything, of one conversation, or those that fit (`search`)."""

from collections.abc import AsyncIterator
from typing import Any

import click

from reach.backend import open_backend
from reach.cli import edge, recorded, searching
from reach.envelope.rules import LAST_MOMENT_MS
from reach.events.reading import Recorded, batches_from, batches_since, events_in
from reach.events.store import record_of

#: the end of the year 9999, behind which there is no date
LAST_US = LAST_MOMENT_MS * 1000


#: Commands of their own that people look for here.
BESIDE = {
    "tail": "prints records as they come",
    "trace": "draws a conversation",
    "explain": "says why a message went where it went",
    "replay": "sends recordings once more",
}


class _Named(click.Group):
    """`reach events NAME` is `reach events show NAME`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Put the command in where none is named."""
        if args and args[0] in BESIDE:
            raise click.UsageError(
                f"`reach events {args[0]}` is no command: `reach {args[0]}` {BESIDE[args[0]]}. "
                f"The records of a message or conversation that is called so: reach events show {args[0]}"
            )
        if not args or (args[0] not in self.commands and args[0] not in {"-h", "--help"}):
            args = ["show", *args]
        return super().parse_args(ctx, args)


@click.group(cls=_Named)
def events() -> None:
    """Print hop records: `reach events [NAME]` as they were written, `reach events search` those that fit."""


@events.command("show")
@click.argument("name", required=False)
@click.option("-f", "--follow", is_flag=True, help="Go on as new records come, until Ctrl-C.")
@edge.with_place
@edge.with_output("text", "ndjson")
def show(name: str | None, follow: bool, redis_url: str, env: str, form: str) -> int:
    """Print hop records. NAME: only those of this message (msg_id) or conversation (correlation_id)."""
    if edge.run(_print(redis_url, env, name, follow=follow, form=form)) or name is None:
        return edge.OK
    edge.say(f"reach: no records of {name} in env {env}: they are kept for a day, and written by workers and agents")
    return edge.FAILED


async def _print(url: str, env: str, name: str | None, *, follow: bool, form: str) -> int:
    """How many there were."""
    backend = open_backend(url, env=env)
    try:
        await backend.open()
        kept: list[dict[str, Any]] = []
        async for record in _records(backend, follow=follow):
            if name is not None and name not in (record.get("msg_id"), record.get("correlation_id")):
                continue
            if follow:
                recorded.tell(record, form)
            else:
                kept.append(record)
        for record in sorted(kept, key=lambda found: found.get("at_us", 0)):
            recorded.tell(record, form)
        return len(kept)
    finally:
        await backend.close()


async def _records(source: Recorded, *, follow: bool) -> AsyncIterator[dict[str, Any]]:
    if follow:
        async for batches in batches_from(source, 0):
            for batch in batches:
                for record in _decoded(*batch):
                    yield record
    else:
        async for batch in batches_since(source):
            for record in _decoded(*batch):
                yield record


def _decoded(partition: int, batch: bytes) -> list[dict[str, Any]]:
    def unread(number: int | None, why: str) -> None:  # noqa: ARG001 - which one it was helps nobody here
        edge.say(f"reach: a {'batch' if number is None else 'record'} that cannot be read was left out")

    found: list[dict[str, Any]] = [record_of(event.body) for event in events_in(partition, batch, unread)]
    return [record for record in found if _has_moment(record)]


def _has_moment(record: dict[str, Any]) -> bool:
    """Whether it says when: what does not was written by nobody who knows what a record is."""
    at_us = record.get("at_us", 0)
    return type(at_us) is int and 0 <= at_us <= LAST_US


events.add_command(searching.search)
