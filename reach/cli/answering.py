"""`reach answer`."""

import click

from reach import ids
from reach.cli import edge
from reach.cli.messages import SENDER, read_body
from reach.errors import AnswerRefused
from reach.sdk.client import Reach


@click.command()
@click.argument("msg_id")
@click.argument("value")
@click.option(
    "--as",
    "sender",
    default=SENDER,
    show_default=True,
    metavar="SENDER",
    help="Who sent it: source.name, else source.agent_id.",
)
@click.option("--leg", type=click.IntRange(0), help="Of a message to all: whose question.")
@edge.with_place
def answer(msg_id: str, value: str, sender: str, leg: int | None, redis_url: str, env: str) -> int:
    """Answer what the handler of a message asks, for its sender alone: the message goes on where it can.

    VALUE is JSON, or any other text, which is given as a JSON string; `-` reads it from stdin, `@file` from a file. Status 1: nothing is
    asked, it is answered already, or the message is somebody else's.
    """
    if not ids.is_uuid(msg_id):
        raise click.UsageError(f"{msg_id!r} is no msg_id")
    try:
        edge.run(_answered(redis_url, env, sender, msg_id, read_body(value), leg))
    except AnswerRefused as error:
        edge.say(f"reach: {error}")
        return edge.FAILED
    return edge.OK


async def _answered(url: str, env: str, sender: str, msg_id: str, value: object, leg: int | None) -> None:
    async with Reach.connect(url, env, sender) as reach:
        await reach.answer(msg_id, value, leg=leg)
