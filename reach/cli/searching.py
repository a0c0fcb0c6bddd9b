"""`reach events search` and `reach tail`: the hop records that fit, those that are kept and those that come."""

import sys
from typing import Any

import click

from reach.cli import edge, recorded
from reach.cli.filters import Moment, meant, query_of, strange_codes, with_filters
from reach.cli.stored import on_backend
from reach.events.store import MAX_FOUND
from reach.registry.routes import read_index


@click.command()
@with_filters
@click.option("--until", type=Moment(), help="The same; it is not part of it.")
@click.option(
    "-n", "count", type=click.IntRange(1, MAX_FOUND), default=1_000, show_default=True, help="The newest so many."
)
@recorded.with_store
@edge.with_place
@edge.with_output("text", "json", "ndjson")
def search(redis_url: str, env: str, form: str, store: str | None, count: int, **said: Any) -> int:
    """Print the newest records that fit, oldest first: all that is said has to fit. Status 1: there are none."""

    async def ask() -> list[dict[str, Any]]:
        async with recorded.asking(redis_url, env, store) as events:
            return await events.find(query_of(said, await events.now_us(), count))

    found = edge.run(ask())
    if form == "json":
        edge.data(edge.as_json(found))
    for record in found if form != "json" else ():
        recorded.tell(record, form)
    if not found:
        _say_why_not(redis_url, env, store, said)
    if len(found) == count:
        edge.say(f"reach: these are the newest {count}: there may be more; -n, --since and --until say which")
    return edge.OK if found else edge.FAILED


def _say_why_not(url: str, env: str, store: str | None, said: dict[str, Any]) -> None:
    """What may be wrong with what was looked for."""
    edge.say(f"reach: no records fit in {recorded.place_of(env, store)}")
    for sentence in strange_codes(said["code"]):
        edge.say(f"reach: {sentence}")
    if said["type"]:
        index, _ = on_backend(url, env, read_index)
        known = index.types.all()
        for name in said["type"]:
            if name not in known:
                edge.say(f"reach: env {env} has no message type {name[:100]}{meant(name, known)} (reach types ls)")


@click.command()
@with_filters
@edge.with_place
@edge.with_output("text", "ndjson")
def tail(redis_url: str, env: str, form: str, **said: Any) -> int:
    """Print records that fit as they come, until Ctrl-C: from now on, or since the moment that is said."""
    for sentence in strange_codes(said["code"]):
        edge.say(f"reach: {sentence}")

    async def follow() -> None:
        async with recorded.asking(redis_url, env, None) as events:
            async for record in events.follow(query_of(said, await events.now_us())):
                recorded.tell(record, form)
                sys.stdout.flush()

    edge.run(follow())
    return edge.OK
