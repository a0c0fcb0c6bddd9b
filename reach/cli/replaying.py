"""`reach replay`: send what was recorded once more, somewhere else, and compare the answers."""

from typing import Any

import click

from reach import ids
from reach.cli import edge, recorded
from reach.events.recordings import Difference, Recording
from reach.sdk.client import Reach
from reach.sdk.replaying import Replayed, replay
from reach.settings import DEFAULT_URL


@click.command("replay")
@click.option(
    "--correlation-id", "conversations", multiple=True, help="All that came into this conversation from outside."
)
@click.option("--msg-id", "msg_ids", multiple=True, help="This message; again for more.")
@click.option("--to", metavar="PATTERN", help="To this target, in place of the recorded ones.")
@click.option("--env", "target_env", metavar="ENV", help="Into this environment.")
@click.option(
    "--same-env", is_flag=True, help="Into the env where it was recorded, to the agents of then: work is done twice."
)
@click.option(
    "--from-env",
    envvar="REACH_ENV",
    default=ids.DEFAULT_ENV,
    show_default=True,
    metavar="ENV",
    help="Where it was recorded.",
)
@click.option("--dry-run", is_flag=True, help="Say what would be sent, and send nothing.")
@click.option(
    "--diff", is_flag=True, help="Show where the answers differ from the recorded ones; status 1 where they do."
)
@click.option("--as", "sender", default="reach-replay", show_default=True, metavar="SENDER", help="Who sends it.")
@recorded.with_store
@click.option(
    "--redis-url",
    metavar="URL",
    envvar="REACH_REDIS_URL",
    default=DEFAULT_URL,
    show_default=True,
    callback=edge.shared,
    help="The address of Redis or Valkey.",
)
@edge.with_output("text", "ndjson")
def replay_(
    conversations: tuple[str, ...], msg_ids: tuple[str, ...], to: str | None, target_env: str | None, same_env: bool,
    from_env: str, dry_run: bool, diff: bool, sender: str, store: str | None, redis_url: str, form: str,
) -> int:  # fmt: skip
    """Send recorded messages once more, with new ids, one after the other, in the order in which they came.

    Of a conversation only what came from outside is sent: agents send the rest themselves. Each message says in the header
    reach-replay-of what it repeats. Into the same env it goes only with --to, or with --same-env.
    """
    if not conversations and not msg_ids:
        raise click.UsageError("say which: --correlation-id or --msg-id")
    into = target_env or from_env
    if into == from_env and to is None and not same_env:
        raise click.UsageError(
            f"this would go to the agents of env {into} once more: say --env, or --to, or --same-env if that is meant"
        )

    async def work() -> int:
        async with recorded.asking(redis_url, from_env, store) as events:
            found = await events.recordings(correlation_ids=conversations, msg_ids=msg_ids)
        for one in found:
            if one.envelope is None:
                edge.say(f"reach: {one.msg_id} is left out: {one.why_not}")
        known = {name for one in found for name in (one.msg_id, one.correlation_id)}
        for name in (*conversations, *msg_ids):
            if name not in known:
                recorded.nothing_of(name, from_env, store)
        sendable = [one for one in found if one.envelope is not None]
        if dry_run or not sendable:
            for one in sendable:
                _tell_dry(one, to, into, form)
            return edge.OK if sendable else edge.FAILED
        worst = edge.OK
        async with Reach.connect(redis_url, into, sender) as reach, edge.complaining(reach.backend, redis_url, into):
            async for replayed in replay(reach, sendable, to=to):
                _tell(replayed, form, diff=diff)
                if replayed.differences if diff else not replayed.ok:
                    worst = edge.FAILED
        return worst

    return edge.run(work())


def _tell_dry(one: Recording, to: str | None, into: str, form: str) -> None:
    envelope = one.envelope
    assert envelope is not None
    told: dict[str, Any] = {"replay_of": one.msg_id, "target": to or envelope.target.pattern, "env": into}
    if form == "ndjson":
        edge.data(edge.as_json(told | {"type": envelope.type, "schema": envelope.payload.schema}, indent=0))
    else:
        edge.show(f"{one.msg_id} would go to {told['target']} in env {into}: {len(envelope.payload.body_bytes)} bytes")


def _tell(one: Replayed, form: str, *, diff: bool) -> None:
    if form == "ndjson":
        edge.data(edge.as_json(one, indent=0))
        return
    for line in lines_of(one, diff=diff):
        edge.show(line)


def lines_of(one: Replayed, *, diff: bool) -> list[str]:
    """What came of a recording, and with `diff` what is different."""
    head = f"{one.replay_of} -> {one.msg_id}  {one.target}  {', '.join(one.codes) or 'nobody'}"
    if not diff:
        return [head]
    number = len(one.differences)
    said = f"{number} difference{'' if number == 1 else 's'}" if number else "same"
    by = "" if one.compared == "answers" else " (its answer is not recorded: only the codes are compared)"
    return [f"{head}: {said}{by}", *(f"  {_difference(one)}" for one in one.differences)]


def _difference(one: Difference) -> str:
    was, now = (edge.as_json(value, indent=0) for value in (one.was, one.now))
    if one.only:
        return f"{one.path}: only {'then' if one.only == 'was' else 'now'}: {was if one.only == 'was' else now}"
    return f"{one.path or 'the answer'}: {was} -> {now}"
