"""`reach dead`: the dead letters, and one of them with everything that is known about it."""

from typing import Any

import click
import msgspec

from reach.backend import open_backend
from reach.cli import edge
from reach.delivery.dead_letters import DeadLetter, find_dead, list_dead


@click.command()
@click.argument("name", required=False)
@click.option("-n", "count", type=click.IntRange(1, 100_000), default=100, show_default=True, help="How many at most.")
@edge.with_place
@edge.with_output("table", "json")
def dead(name: str | None, count: int, redis_url: str, env: str, form: str) -> int:
    """List what reach has given up, oldest first; with NAME (an entry id or msg_id) show one, with its envelope and history."""
    letters = edge.run(_letters(redis_url, env, name, count))
    if name is not None:
        if not letters:
            edge.say(f"reach: no dead letter {name}")
            return edge.FAILED
        edge.data(edge.as_json(_told(letters[0], whole=True)))
    elif form == "json":
        edge.data(edge.as_json([_told(letter, whole=False) for letter in letters]))
    elif letters:
        rows = [("ID", "MSG_ID", "CODE", "ATTEMPTS", "MESSAGE"), *map(_row, letters)]
        edge.show(edge.table(rows))
    else:
        edge.say(f"no dead letters in env {env}")
    return edge.OK


async def _letters(url: str, env: str, name: str | None, count: int) -> list[DeadLetter]:
    backend = open_backend(url, env=env)
    try:
        await backend.open()
        partitions = range(backend.partitions)
        if name is not None:
            found = await find_dead(backend, partitions, name)
            return [found] if found is not None else []
        return [letter async for letter in list_dead(backend, partitions, max_entries=count)]
    finally:
        await backend.close()


def _told(letter: DeadLetter, *, whole: bool) -> dict[str, Any]:
    told = {"id": letter.id, "partition": letter.partition, "msg_id": letter.msg_id, "receipt": _json(letter.receipt)}
    return told | ({"history": _json(letter.history), "envelope": _json(letter.envelope)} if whole else {})


def _row(letter: DeadLetter) -> tuple[str, ...]:
    receipt = _json(letter.receipt)
    facts = receipt if isinstance(receipt, dict) else {}
    message = str(facts.get("error_message") or "")
    code, attempts = str(facts.get("code", "?")), str(facts.get("attempts", "?"))
    return letter.id, letter.msg_id or "-", code, attempts, message[:60].replace("\n", " ")


def _json(data: bytes) -> Any:
    """Stored JSON; what is none (it may have been buried for that) as text."""
    try:
        return msgspec.json.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return data.decode("utf-8", "replace")
