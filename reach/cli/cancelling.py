"""`reach cancel`."""

import click
import msgspec

from reach import ids
from reach.backend import Backend
from reach.cli import edge
from reach.envelope import records
from reach.envelope.receipt import Notice

WAIT_MS = 5_000


@click.command()
@click.argument("msg_id")
@click.option("--as", "sender", required=True, metavar="SENDER", help="Who sent it: source.name, else source.agent_id.")
@click.option("--order-key", help="Of the message, if it has one; without it every partition is looked through.")
@click.option("--round", "round_", type=click.IntRange(1), default=1, show_default=True, help="A greater one goes on.")
@edge.with_place
def cancel(msg_id: str, sender: str, order_key: str | None, round_: int, redis_url: str, env: str) -> int:
    """End a message, for its sender alone; what runs of it is cancelled.

    Prints what came of it: `cancelled`; `tombstone`, where it has not come yet and will not start within a minute; `ended` and `newer`
    (a later round), where nothing was left to cancel, status 1. A worker does it; where none serves, as soon as one does.
    """
    if not ids.is_uuid(msg_id):
        raise click.UsageError(f"{msg_id!r} is no msg_id")
    asked = {"op": "cancel", "msg_id": msg_id, "source": sender, "order_key": order_key, "round": round_}
    answer = edge.run(_asked(redis_url, env, {name: value for name, value in asked.items() if value is not None}))
    if answer is None:
        edge.say(f"reach: no answer within {WAIT_MS // 1000} s; it is cancelled as soon as a worker serves env {env}")
        return edge.TRY_LATER
    what = answer.fields.get("what")
    if answer.notice == "refused":
        edge.say(f"reach: {answer.fields.get('code')}: {answer.fields.get('message')}")
        return edge.FAILED
    edge.data(str(what))
    return edge.OK if what in ("cancelled", "tombstone") else edge.FAILED


async def _asked(url: str, env: str, entry: dict[str, object]) -> Notice | None:
    """What the registrar says; None: nothing yet."""
    mailbox = ids.new_mailbox_id("reach-cli")
    async with edge.opened(url, env) as backend:
        await backend.keep_mailbox(mailbox, [0])
        await backend.send_control(msgspec.json.encode({**entry, "reply_to": mailbox}))
        answer = await _answer(backend, mailbox)
        await backend.drop_mailbox(mailbox)
    return answer


async def _answer(backend: Backend, mailbox: str) -> Notice | None:
    cursor = "0"
    while mail := await backend.read_mail(mailbox, {0: cursor}, WAIT_MS):
        cursor = mail[-1].id
        for one in mail:
            if one.kind == "notice":
                return records.decode_notice(one.data)
    return None
