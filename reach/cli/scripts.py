"""`reach scripts`: the steps that agents without the SDK load into Redis themselves (beat, take, settle, progress)."""

import click

from reach.backend.scripts import all_scripts
from reach.cli import edge


@click.command()
@click.argument("name", required=False)
@edge.with_output("text", "json")
def scripts(name: str | None, form: str) -> None:
    """List the steps with the hash by which EVALSHA knows them; with NAME print that step's whole Lua text.

    `redis-cli SCRIPT LOAD "$(reach scripts settle)"` answers with the listed hash.
    """
    known = all_scripts()
    if name is None:
        rows = [{"name": step.name, "sha": step.sha, "what": step.what} for step in known.values()]
        if form == "json":
            click.echo(edge.as_json(rows))
        else:
            click.echo(edge.table([("NAME", "SHA", "WHAT"), *((row["name"], row["sha"], row["what"]) for row in rows)]))
        return
    if name not in known:
        raise click.UsageError(f"there is no step {name!r}: {', '.join(known)}")
    step = known[name]
    if form == "json":
        arguments = [
            {"name": a.name, "type": a.type, "repeated": a.repeated, "what": a.what} for a in (*step.keys, *step.argv)
        ]
        told = {
            "name": step.name,
            "sha": step.sha,
            "arguments": arguments,
            "returns": step.returns,
            "repeat": step.again,
        }
        click.echo(edge.as_json(told | {"text": step.text}))
    else:
        click.echo(step.text, nl=False)
