"""`reach dead`: the dead letters. Look at them, send them once more, throw them away."""

import re
from typing import Any

import click

from reach.cli import edge
from reach.cli.stored import value_of
from reach.clock import SystemClock
from reach.delivery.dead_letters import DeadLetter, DeadLetters
from reach.envelope.privacy import Keeping, Privacy, privacy_of
from reach.errors import EnvelopeError
from reach.ids import stream_id
from reach.sdk.names import Names
from reach.tracing.contents import asked_meta

_UNITS_MS = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
ALL = 1_000_000
#: What a receipt has from reach itself, and so of nobody's contents.
_OF_REACH = frozenset({
    *("msg_id", "correlation_id", "task_id", "leg", "round", "status", "code", "target_agent", "target_instance", "version"),
    *("attempts", "retry_count", "duration_ms", "queue_ms", "finished_at", "stored", "durability", "via", "retry_after_ms"),
    *("schema", "processing_host", "confidence", "partial", "cost"),
})  # fmt: skip


class Age(click.ParamType[int]):
    """`45s`, `30m`, `12h`, `7d` -> ms."""

    name = "AGE"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Read it."""
        found = re.fullmatch(r"(\d{1,9})([smhd])", str(value))
        if found is None:
            self.fail(f"{value!r} is no age: say 45s, 30m, 12h or 7d", param, ctx)
        return int(found[1]) * _UNITS_MS[found[2]]


@click.group()
def dead() -> None:
    """Look at what reach has given up, send it once more, or throw it away."""


@dead.command("ls")
@click.option("-n", "count", type=click.IntRange(1, 100_000), default=100, show_default=True, help="How many at most.")
@edge.with_place
@edge.with_output("table", "json")
def listed(count: int, redis_url: str, env: str, form: str) -> int:
    """List them, oldest first. Of what the env does not keep (the setting privacy) the code alone: `show` has one of them whole."""

    async def read() -> tuple[list[DeadLetter], Privacy]:
        async with edge.opened(redis_url, env) as backend:
            privacy = privacy_of(await asked_meta(backend), env)
            return [letter async for letter in DeadLetters(backend).list(count)], privacy

    letters, privacy = edge.run(read())
    if form == "json":
        edge.data(edge.as_json([_listed(letter, privacy) for letter in letters]))
    elif letters:
        rows = [("ID", "MSG_ID", "CODE", "ATTEMPTS", "MESSAGE"), *(_row(letter, privacy) for letter in letters)]
        edge.show(edge.table(rows))
    else:
        edge.say(f"no dead letters in env {env}")
    return edge.OK


@dead.command()
@click.argument("name")
@edge.with_place
def show(name: str, redis_url: str, env: str) -> int:
    """Show one with its envelope and history; NAME is an entry id or a msg_id."""

    async def read() -> DeadLetter | None:
        async with edge.opened(redis_url, env) as backend:
            return await DeadLetters(backend).find(name)

    letter = edge.run(read())
    if letter is None:
        return _missing(name)
    edge.data(edge.as_json(_whole(letter)))
    return edge.OK


@dead.command()
@click.argument("names", nargs=-1)
@click.option("--all", "everything", is_flag=True, help="Every letter of the env.")
@click.option("--to", "target", metavar="PATTERN", help="Another target: a pattern or a bare name.")
@edge.with_place
def requeue(names: tuple[str, ...], everything: bool, target: str | None, redis_url: str, env: str) -> int:
    """Send letters once more, with new deadlines; NAMES are entry ids or msg_ids. Safe to run twice."""

    async def send() -> int:
        async with edge.opened(redis_url, env) as backend:
            pattern = await Names(backend, SystemClock()).pattern_of(target) if target is not None else None
            letters = DeadLetters(backend)
            found, missing = await _named(letters, names, everything)
            found = _latest(found, names)
            problems = [await _sent(letters, letter, pattern) for letter in found]
            await edge.complain_if_nobody_serves(backend, redis_url, env)
            return max([edge.OK, *problems, *map(_missing, missing)])

    return edge.run(send())


@dead.command()
@click.argument("names", nargs=-1)
@click.option("--all", "everything", is_flag=True, help="Every letter of the env.")
@click.option("--older-than", "age_ms", type=Age(), help="Those that have lain there for longer: 45s, 30m, 12h, 7d.")
@edge.with_place
def purge(names: tuple[str, ...], everything: bool, age_ms: int | None, redis_url: str, env: str) -> int:
    """Delete letters for good; NAMES are entry ids or msg_ids."""

    async def delete() -> int:
        async with edge.opened(redis_url, env) as backend:
            letters = DeadLetters(backend)
            found, missing = await _named(letters, names, everything or age_ms is not None)
            if age_ms is not None:
                before_ms = await backend.now_ms() - age_ms
                found = [letter for letter in found if stream_id(letter.id)[0] < before_ms]
            edge.say(f"{await letters.purge(found)} purged")
            return max([edge.OK, *map(_missing, missing)])

    return edge.run(delete())


async def _named(letters: DeadLetters, names: tuple[str, ...], everything: bool) -> tuple[list[DeadLetter], list[str]]:
    """Those that are meant, and the names that none has."""
    if bool(names) == everything:
        raise click.UsageError("say which: NAMES, or --all" if not names else "NAMES, or all of them: not both")
    found = [letter async for letter in letters.list(ALL) if everything or {letter.id, letter.msg_id} & set(names)]
    known = {name for letter in found for name in (letter.id, letter.msg_id)}
    return found, [name for name in names if name not in known]


def _latest(found: list[DeadLetter], names: tuple[str, ...]) -> list[DeadLetter]:
    """Of a message that ended as a dead letter in several rounds the last one: it is one piece of work. All that are named by their ids."""
    last = {(letter.msg_id or letter.id, letter.said.leg): letter.id for letter in found}
    chosen = [letter for letter in found if letter.id in {*names, *last.values()}]
    if len(chosen) < len(found):
        edge.say(
            f"{len(found) - len(chosen)} letters of earlier rounds of the same messages stay; name them by their ids"
        )
    return chosen


async def _sent(letters: DeadLetters, letter: DeadLetter, target: str | None) -> int:
    """Requeue one. Junk stays where it is, and holds up nothing that lies behind it."""
    try:
        sent = await letters.requeue(letter, target=target)
    except EnvelopeError as error:
        edge.say(f"reach: {letter.id} cannot be sent: {error.message}")
        return edge.FAILED
    if not sent.sent:
        edge.say(f"reach: {letter.id} was requeued or purged meanwhile by somebody else: nothing was sent")
        return edge.OK
    edge.data(f"{letter.id} {sent.msg_id} {sent.round}")
    if not sent.remembered:
        edge.say(f"reach: {letter.id} goes on without its guards (ctx.once): an effect that was made may be made again")
    return edge.OK


def _missing(name: str) -> int:
    edge.say(f"reach: no dead letter {name}")
    return edge.FAILED


def _told(letter: DeadLetter) -> dict[str, Any]:
    return {
        "id": letter.id,
        "partition": letter.partition,
        "msg_id": letter.msg_id,
        "receipt": value_of(letter.receipt),
    }


def _whole(letter: DeadLetter) -> dict[str, Any]:
    return _told(letter) | {"history": letter.attempts, "envelope": value_of(letter.envelope)}


def _listed(letter: DeadLetter, privacy: Privacy) -> dict[str, Any]:
    told, keeping = _told(letter), _keeping(letter, privacy)
    if keeping == "keep":
        return told
    receipt = told["receipt"] if isinstance(told["receipt"], dict) else {}
    kept = {name: value for name, value in receipt.items() if name in _OF_REACH}
    return told | {"receipt": kept, "left_out": {"why": keeping}}


def _keeping(letter: DeadLetter, privacy: Privacy) -> Keeping:
    schemas = letter.schemas
    return privacy.strictest() if schemas is None else privacy.of(schemas)


def _row(letter: DeadLetter, privacy: Privacy) -> tuple[str, ...]:
    said, keeping = letter.said, _keeping(letter, privacy)
    message = (said.error_message or "")[:60].replace("\n", " ") if keeping == "keep" else f"(not told: {keeping})"
    return letter.id, letter.msg_id or "-", said.code or "?", str(len(letter.attempts) or said.attempts), message
