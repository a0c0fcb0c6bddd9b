"""`reach send` and `reach request`."""

import re
import sys
from datetime import datetime
from pathlib import Path
from typing import Any, cast

import click
import msgspec

from reach import ids
from reach.cli import edge
from reach.envelope.codec import DEFAULT_MAX_BYTES
from reach.envelope.receipt import Status
from reach.envelope.rules import sender_of
from reach.sdk.budgets import check_budget
from reach.sdk.client import Reach
from reach.sdk.declared import needs_of
from reach.sdk.durations import moment_ms, to_ms
from reach.sdk.options import Options
from reach.sdk.receipts import Receipt

_NUMBER = re.compile(r"\d+(\.\d+)?").fullmatch
#: A key needs a sender that is the same each time.
SENDER = "reach-cli"


#: No more is read of a body: sixteen times the largest envelope that a worker takes unless it was set to take more.
MAX_BODY_BYTES = 16 * DEFAULT_MAX_BYTES


class Seconds(click.ParamType[float]):
    """Seconds as the client takes them: what it would refuse is wrong usage.

    Args:
        least: The shortest, in ms.
    """

    name = "seconds"

    def __init__(self, least: int) -> None:
        self.least = least

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """The number, in seconds."""
        try:
            seconds = float(value)
        except ValueError:
            self.fail(f"{value!r} is no number of seconds", param, ctx)
        try:
            to_ms(seconds, str(value), least=self.least)
        except ValueError as error:
            self.fail(str(error), param, ctx)
        return seconds


class Pair(click.ParamType[tuple[str, str]]):
    """`NAME=VALUE`."""

    name = "NAME=VALUE"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, Any]:
        """Name and value."""
        name, equals, said = str(value).partition("=")
        if not name or not equals:
            self.fail(f"{value!r} is no NAME=VALUE", param, ctx)
        return name, said


class Needed(Pair):
    """What an agent must have: `tier=large`, `context_tokens=8000`."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, Any]:
        """Name and value, a number where it is one."""
        name, said = super().convert(value, param, ctx)
        number = ids.count_of(said) if name == "context_tokens" else None
        read = said if number is None else number
        try:
            needs_of({name: read})
        except (TypeError, ValueError) as error:
            self.fail(str(error), param, ctx)
        return name, read


class When(click.ParamType[float]):
    """A moment: `2026-12-01T08:00:00Z`, with its offset from UTC, or Unix seconds."""

    name = "moment"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Unix seconds."""
        text = str(value)
        try:
            moment = float(text) if _NUMBER(text) else datetime.fromisoformat(text)
            return moment_ms(moment, "--not-before") / 1000
        except (TypeError, ValueError) as error:
            self.fail(f"{text!r} is no moment such as 2026-12-01T08:00:00Z or Unix seconds: {error}", param, ctx)


def with_message(command: edge.Command) -> edge.Command:
    """Target, body and what a message may say."""
    for add in reversed(
        (
            click.argument("target"),
            click.argument("body", required=False),
            click.option("--type", "type_", default="request", show_default=True, help="The message type."),
            click.option("--schema", help="The schema of the body, as refund.request.v1."),
            click.option("--timeout", type=Seconds(least=1), metavar="SECONDS", help="How long to wait for the end."),
            click.option(
                "--ttl",
                type=Seconds(least=1),
                metavar="SECONDS",
                help="How long the first hand-over may take.",
            ),
            click.option(
                "--delay",
                type=Seconds(least=0),
                metavar="SECONDS",
                help="Hand it over so much later, at most seven days (604800); every timeout counts from then.",
            ),
            click.option(
                "--not-before",
                type=When(),
                metavar="MOMENT",
                help="The same as a moment: 2026-12-01T08:00:00Z, or Unix seconds.",
            ),
            click.option(
                "--needs",
                type=Needed(),
                multiple=True,
                help="What its agent must have: tier=large, context_tokens=8000.",
            ),
            click.option("--header", "headers", type=Pair(), multiple=True, help="Carried untouched; again for more."),
            click.option(
                "--as", "sender", metavar="SENDER", help=f"Who sends it; with --key {SENDER} where nothing is said."
            ),
            click.option("--key", help="Your own id of this piece of work: a repeat runs nothing."),
            click.option("--priority", type=click.IntRange(1, 10), default=5, show_default=True),
            click.option("--correlation-id", help="The conversation."),
            click.option(
                "--max-attempts", type=click.IntRange(1, 10), help="So many runs at most; 6 where nothing is said."
            ),
            click.option(
                "--min-confidence",
                type=click.FloatRange(0, 1),
                help="Ask one other agent where the answer is less sure.",
            ),
            click.option(
                "--budget-hops", type=click.IntRange(0), help="So many messages may follow it in the conversation."
            ),
            click.option("--budget-cost", type=click.FloatRange(0), help="So much may the conversation cost."),
            click.option("--budget-tokens", type=click.IntRange(0), help="So many tokens may the conversation use."),
            click.option(
                "--order-key",
                help="Messages of one key and target are handled one at a time, in the order in which they came.",
            ),
        )
    ):
        command = add(command)
    return edge.with_place(command)


@click.command()
@with_message
@edge.with_output("text", "json")
def request(target: str, body: str | None, redis_url: str, env: str, form: str, sender: str | None, **said: Any) -> int:
    """Send BODY to TARGET and wait for the end; print the output, or with -o json the whole receipt.

    TARGET is a pattern (capability:refund, agent_id:x, group:g) or a bare name. BODY is JSON, or any other text, which is sent as a JSON
    string; `-` reads it from stdin, `@file` from a file.
    """
    options = options_of(said)
    receipt = edge.run(_request(redis_url, env, target, read_body(body), options, sender))
    if form == "json":
        edge.data(edge.as_json(receipt))
    elif receipt.ok:
        edge.data(receipt.output if isinstance(receipt.output, str) else edge.as_json(receipt.output))
    if not receipt.ok:
        edge.say(f"reach: {receipt.status.value} {receipt.code}: {receipt.error_message or ''}".rstrip(": "))
    return status_of(receipt)


@click.command()
@with_message
@click.option(
    "--scope", type=click.Choice(["one", "all"]), default="one", show_default=True, help="One of those who fit, or all."
)
@click.option(
    "--stage",
    "stages",
    multiple=True,
    metavar="TARGETS",
    help="With --scope all: who is in the first stage, and once more for each later one; several with a comma between.",
)
def send(
    target: str,
    body: str | None,
    scope: Any,
    stages: tuple[str, ...],
    redis_url: str,
    env: str,
    sender: str | None,
    **said: Any,
) -> None:
    """Send BODY to TARGET and print the message's id. Its acceptance is acknowledged; nobody waits for the end.

    TARGET and BODY as for request. A stage begins when all before it have ended well; who is in none is only shown the message.
    Who has sent it, for cancel and answer, is told on stderr.
    """
    options = options_of(said)
    if stages:
        options["process_order"] = [_stage(text) for text in stages]
        if scope != "all":
            raise click.UsageError("--stage puts in order who gets a message to all: say --scope all with it")
    msg_id, sent_as = edge.run(_send(redis_url, env, target, read_body(body), scope, options, sender))
    click.echo(msg_id)
    edge.say(f"sent as {sent_as}: reach cancel {msg_id} --as {sent_as}")


def _stage(text: str) -> list[str]:
    names = [name.strip() for name in text.split(",")]
    if not all(names):
        raise click.UsageError(f"--stage {text!r} names nobody: say targets, with a comma between")
    return names


async def _request(url: str, env: str, target: str, body: object, options: Options, sender: str | None) -> Receipt[Any]:
    async with Reach.connect(url, env, _sender(options, sender)) as reach, edge.complaining(reach.backend, url, env):
        return await reach.request(target, body, **options)


async def _send(
    url: str, env: str, target: str, body: object, scope: Any, options: Options, sender: str | None
) -> tuple[str, str]:
    """The message's id, and who counts as its sender."""
    async with Reach.connect(url, env, _sender(options, sender)) as reach:
        handle = await reach.send(target, body, scope=scope, **options)
        return handle.msg_id, sender_of(reach.origin.source)


def _sender(options: Options, sender: str | None) -> str | None:
    return sender or (SENDER if "key" in options else None)


def options_of(said: dict[str, Any]) -> Options:
    """What was said on the command line, as the client takes it."""
    budget = {name: said.pop(f"budget_{name}", None) for name in ("hops", "cost", "tokens")}
    pairs = {name: dict(said.pop(name, ())) for name in ("needs", "headers")}
    options: dict[str, Any] = {name: value for name, value in pairs.items() if value}
    options |= {name.removesuffix("_"): value for name, value in said.items() if value is not None}
    if "delay" in options and "not_before" in options:
        raise click.UsageError("--delay and --not-before are two ways to say the same: one is wanted")
    if any(limit is not None for limit in budget.values()):
        try:
            check_budget(budget)
        except ValueError as error:
            raise click.UsageError(str(error)) from error
        options["budget"] = budget
    return cast("Options", options)


def read_body(text: str | None) -> object:
    """The body: JSON as it stands, or a text that becomes a JSON string.

    Raises:
        click.UsageError: A file that cannot be read, or something that begins like JSON and is none.
    """
    if text is None:
        return None
    if text == "-":
        data = sys.stdin.buffer.read(MAX_BODY_BYTES + 1)
    elif text.startswith("@"):
        try:
            with Path(text[1:]).open("rb") as file:
                data = file.read(MAX_BODY_BYTES + 1)
        except OSError as error:
            raise click.UsageError(f"{text[1:]}: {error.strerror}") from error
    else:
        data = text.encode("utf-8", "surrogateescape")
    if len(data) > MAX_BODY_BYTES:
        raise click.UsageError(f"the body has more than {MAX_BODY_BYTES} bytes: put it somewhere, and send where")
    stripped = data.strip()
    try:
        msgspec.json.decode(stripped, type=msgspec.Raw)
        return msgspec.Raw(stripped)
    except msgspec.DecodeError as error:
        if stripped[:1] in {b"{", b"[", b'"'}:
            raise click.UsageError(f"the body begins like JSON and is none: {error}") from error
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise click.UsageError("the body is not UTF-8") from error


def status_of(receipt: Receipt[Any]) -> int:
    """The exit status of a receipt."""
    if receipt.ok:
        return edge.OK
    if receipt.code == "backend.unavailable":
        return edge.UNAVAILABLE
    return edge.TRY_LATER if receipt.status is Status.RETRYABLE else edge.FAILED
