"""`reach events search` and `reach tail`: the hop records that fit, those that are kept and those that come."""

import sys
from typing import Any

import click

from reach.cli import edge, recorded
from reach.cli.filters import Moment, query_of, with_filters
from reach.events.store import MAX_FOUND


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
    if len(found) == count:
        edge.say(f"reach: these are the newest {count}: there may be more; -n, --since and --until say which")
    return edge.OK if found else edge.FAILED


@click.command()
@with_filters
@edge.with_place
@edge.with_output("text", "ndjson")
def tail(redis_url: str, env: str, form: str, **said: Any) -> int:
    """Print records that fit as they come, until Ctrl-C: from now on, or since the moment that is said."""

    async def follow() -> None:
        async with recorded.asking(redis_url, env, None) as events:
            async for record in events.follow(query_of(said, await events.now_us())):
                recorded.tell(record, form)
                sys.stdout.flush()

    edge.run(follow())
    return edge.OK
