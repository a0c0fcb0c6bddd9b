"""`reach schemas`: the JSON Schemas of an env."""

from typing import Any

import click

from reach import ids
from reach.backend import Backend
from reach.cli import edge
from reach.cli.stored import given, on_backend
from reach.envelope.families import COMPATIBILITIES, Family, Version
from reach.envelope.privacy import KEEPINGS, Privacy, privacy_of
from reach.registry.keeping import keep
from reach.registry.schemas import Schemas

#: Of a schema that has no rule of its own.
UNSAID = "default"


@click.group()
def schemas() -> None:
    """List, show, store, remove JSON Schemas, and see what a new version would break."""


@schemas.command("ls")
@edge.with_place
@edge.with_output("table", "json")
def listed(redis_url: str, env: str, form: str) -> int:
    """List the schemas: who stored them, the rule of their family, what records keep of them, and which other ones they read."""

    async def read(backend: Backend) -> tuple[dict[str, Family], Privacy]:
        return await Schemas(backend).list(), privacy_of((await backend.snapshot()).meta, env)

    found, privacy = on_backend(redis_url, env, read)
    rows = [
        _facts(name, family, version) | {"privacy": privacy.of([version.name])}
        for name, family in found.items()
        for version in family.versions
    ]
    if form == "json":
        edge.data(edge.as_json(rows))
    elif rows:
        table = [
            (row["schema"], row["compatibility"], row["privacy"], row["by"], " ".join(row["reads"]) or "-")
            for row in rows
        ]
        edge.show(edge.table([("SCHEMA", "COMPATIBILITY", "PRIVACY", "BY", "READS"), *table]))
    else:
        edge.say(f"no schemas in env {env}")
    return edge.OK


@schemas.command("show")
@click.argument("name")
@edge.with_place
def show(name: str, redis_url: str, env: str) -> int:
    """Print the JSON Schema NAME."""
    found = on_backend(redis_url, env, lambda backend: Schemas(backend).get(name))
    if found is None:
        edge.say(f"reach: there is no schema {name} in env {env}")
        return edge.FAILED
    edge.data(edge.as_json(found))
    return edge.OK


@schemas.command("set")
@click.argument("name")
@click.argument("schema", required=False)
@click.option("--compatibility", type=click.Choice(COMPATIBILITIES), help="What new versions of the family must be.")
@click.option(
    "--privacy",
    type=click.Choice([*KEEPINGS, UNSAID]),
    help=f"What hop records keep of it; {UNSAID}: what the env says.",
)
@edge.with_place
def set_(
    name: str, schema: str | None, compatibility: str | None, privacy: str | None, redis_url: str, env: str
) -> int:
    """Store SCHEMA (JSON, or @file) as NAME, such as weather.query.v2; or give the family weather.query its --compatibility.

    Or say what records keep of bodies and outputs (--privacy): of a schema, a family, or all that begin alike ('payments.*').
    """
    if sum(said is not None for said in (schema, compatibility, privacy)) != 1:
        raise click.UsageError("say a schema, to store it, or --compatibility, for a family, or --privacy")
    if privacy is not None:
        return _set_privacy(redis_url, env, name, privacy)
    if compatibility is not None:
        family = name.rpartition(".v")[0] if ids.is_schema(name) else name
        on_backend(redis_url, env, lambda backend: Schemas(backend).set_compatibility(family, compatibility))
        edge.say(f"new versions of {family} must be: {compatibility}")
        return edge.OK
    data = given(schema or "")
    is_new = on_backend(redis_url, env, lambda backend: Schemas(backend).set(name, data))
    edge.say(f"{name} is stored" if is_new else f"{name} is stored already, and means the same")
    return edge.OK


@schemas.command("rm")
@click.argument("name")
@edge.with_place
def remove(name: str, redis_url: str, env: str) -> int:
    """Forget the schema NAME. Messages may go on naming it."""
    if on_backend(redis_url, env, lambda backend: Schemas(backend).remove(name)):
        edge.say(f"{name} is forgotten")
        return edge.OK
    edge.say(f"reach: there is no schema {name} in env {env}")
    return edge.FAILED


@schemas.command("check")
@click.argument("name")
@click.argument("schema")
@edge.with_place
@edge.with_output("table", "json")
def check(name: str, schema: str, redis_url: str, env: str, form: str) -> int:
    """Say what storing SCHEMA (JSON, or @file) as NAME would break; status 1: it would be refused. Nothing is stored."""
    data = given(schema)

    async def looked(backend: Backend) -> dict[str, Any]:
        checked = await Schemas(backend).check(name, data)
        changes = not (checked.is_new or checked.is_same or checked.compatibility == "none")
        return {
            "schema": name,
            "compatibility": checked.compatibility,
            "accepted": checked.verdict.ok and not changes,
            "stored": "the same" if checked.is_same else None if checked.is_new else "another",
            "problems": checked.verdict.differences,
            "not_understood": checked.verdict.unread,
        }

    found = on_backend(redis_url, env, looked)
    if form == "json":
        edge.data(edge.as_json(found))
    else:
        lines = [f"{one.path}: {one.message}" for one in (*found["problems"], *found["not_understood"])]
        if found["stored"] is not None:
            lines.insert(0, f"{found['stored']} schema is stored as {name}")
        verdict = "fits" if found["accepted"] else "does not fit"
        edge.show("\n".join([f"{name} {verdict} ({found['compatibility']})", *lines]))
    return edge.OK if found["accepted"] else edge.FAILED


def _set_privacy(redis_url: str, env: str, name: str, said: str) -> int:
    rule = next((keeping for keeping in KEEPINGS if keeping == said), None)

    try:
        text = on_backend(redis_url, env, lambda backend: keep(backend, name, rule))
    except ValueError as error:
        raise click.UsageError(f"privacy: {error}") from error
    edge.say(f"records keep of {name}: {rule or 'what the env says'} (privacy is {text} in env {env})")
    return edge.OK


def _facts(family: str, kept: Family, version: Version) -> dict[str, Any]:
    return {
        "schema": version.name,
        "family": family,
        "compatibility": kept.compatibility,
        "by": version.by,
        "at_ms": version.at_ms,
        "reads": sorted(name for name, readers in kept.readers().items() if version.name in readers),
    }
