"""`reach conversation show`: what a conversation has used."""

import click

from reach.cli import edge
from reach.sdk.conversation import Conversation, read_conversation


@click.group()
def conversation() -> None:
    """Look at what conversations cost."""


@conversation.command()
@click.argument("correlation_id")
@edge.with_place
@edge.with_output("table", "json")
def show(correlation_id: str, redis_url: str, env: str, form: str) -> int:
    """Show what a conversation has used: cost, tokens, hops and messages, and its budget.

    CORRELATION_ID is the msg_id of its first message where nobody named it. It is kept for an hour after its last count. Status 1: nothing
    is counted in it.
    """
    found = edge.run(_found(redis_url, env, correlation_id))
    if found is None:
        edge.say(f"reach: nothing is counted in a conversation {correlation_id}")
        return edge.FAILED
    if form == "json":
        edge.data(edge.as_json(found))
    else:
        edge.show(edge.table(_rows(found)))
    return edge.OK


async def _found(url: str, env: str, correlation_id: str) -> Conversation | None:
    async with edge.opened(url, env) as backend:
        return await read_conversation(backend, correlation_id)


def _rows(found: Conversation) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = [("WHAT", "USED", "BUDGET")]
    for name in ("cost", "tokens", "hops", "messages"):
        most = getattr(found.budget, name, None)
        rows.append((name, f"{getattr(found, name):.15g}", "-" if most is None else f"{most:.15g}"))
    return rows
