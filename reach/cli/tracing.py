"""`reach trace`: a conversation as a tree on a timeline."""

import sys

import click

from reach.cli import edge, recorded
from reach.cli.picture import lines_of
from reach.events.traced import Trace

_HOME = "\x1b[H\x1b[2J"


@click.command()
@click.argument("name")
@click.option("-f", "--follow", is_flag=True, help="Draw it anew as something happens, until it has ended.")
@click.option("--json", "as_json", is_flag=True, help="As JSON; with --follow a line for each picture.")
@recorded.with_store
@edge.with_place
def trace(name: str, follow: bool, as_json: bool, store: str | None, redis_url: str, env: str) -> int:
    """Show a conversation: messages, waits, attempts, who ran them where, and how it ended.

    NAME is a correlation_id, or the msg_id of one of its messages. In the timeline `.` waits, `#` runs, `|` is a moment.
    """
    if follow:
        edge.run(_follow(redis_url, env, store, name, as_json=as_json))
        return edge.OK
    found = edge.run(_trace(redis_url, env, store, name))
    if found is None:
        return recorded.nothing_of(name, env, store)
    _tell(found, as_json=as_json, indent=2)
    return edge.OK


async def _trace(url: str, env: str, store: str | None, name: str) -> Trace | None:
    async with recorded.asking(url, env, store) as events:
        return await events.trace(name)


async def _follow(url: str, env: str, store: str | None, name: str, *, as_json: bool) -> None:
    async with recorded.asking(url, env, store) as events:
        async for found in events.follow_trace(name):
            if sys.stdout.isatty() and not as_json:
                click.echo(_HOME, nl=False)
            _tell(found, as_json=as_json, indent=0)
            sys.stdout.flush()


def _tell(found: Trace, *, as_json: bool, indent: int) -> None:
    if as_json:
        edge.data(edge.as_json(found, indent=indent))
    else:
        edge.show("\n".join(lines_of(found)))
