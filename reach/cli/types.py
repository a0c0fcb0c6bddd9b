"""`reach types`: the message types of an env."""

import click

from reach import ids
from reach.backend import Backend
from reach.cli import edge
from reach.cli.stored import on_backend
from reach.envelope.rules import BUILT_IN_TYPES
from reach.registry.routes import read_index

_ADMIN = b"admin"


@click.group()
def types() -> None:
    """List, add and remove message types. Those that registrations bring along stay until they are removed."""


@types.command("ls")
@edge.with_place
@edge.with_output("table", "json")
def listed(redis_url: str, env: str, form: str) -> int:
    """List the types that messages may have, and who accepts them."""
    found = on_backend(redis_url, env, _accepted)
    if form == "json":
        built_in = sorted(BUILT_IN_TYPES)
        edge.data(
            edge.as_json([{"type": name, "built_in": name in built_in, "accepted_by": who} for name, who in found])
        )
    else:
        edge.show(edge.table([("TYPE", "ACCEPTED BY"), *((name, _names(who)) for name, who in found)]))
    return edge.OK


@types.command("add")
@click.argument("name")
@edge.with_place
def add(name: str, redis_url: str, env: str) -> int:
    """Let messages have the type NAME, before anybody accepts it."""
    if not ids.is_token(name):
        raise click.UsageError(f"{name!r} is not dotted lower-case tokens, at most 128 characters")
    on_backend(redis_url, env, lambda backend: backend.set_meta("types", name, _ADMIN))
    edge.say(f"messages of env {env} may have the type {name}")
    return edge.OK


@types.command("rm")
@click.argument("name")
@edge.with_place
def remove(name: str, redis_url: str, env: str) -> int:
    """Forget the type NAME. While an agent accepts it, messages may have it all the same."""

    async def done(backend: Backend) -> tuple[bool, list[str]]:
        there = name in (await backend.snapshot()).types
        if there:
            await backend.set_meta("types", name, None)
        return there, dict(await _accepted(backend)).get(name, [])

    if name in BUILT_IN_TYPES:
        raise click.UsageError(f"{name} is built in")
    there, who = on_backend(redis_url, env, done)
    if who:
        edge.say(
            f"{_names(who)} accept{'s' if len(who) == 1 else ''} {name}: messages may have it as long as that is so"
        )
    elif there:
        edge.say(f"messages of env {env} may not have the type {name}")
    else:
        edge.say(f"reach: there is no type {name} in env {env}")
    return edge.OK if there else edge.FAILED


async def _accepted(backend: Backend) -> list[tuple[str, list[str]]]:
    index, _ = await read_index(backend)
    return [
        (name, sorted(agent_id for agent_id, agent in index.agents.items() if name in agent.accepts))
        for name in sorted(index.types.all())
    ]


def _names(who: list[str]) -> str:
    more = f" and {len(who) - 5} more" if len(who) > 5 else ""
    return ", ".join(who[:5]) + more or "-"
