"""`reach settings`: what holds for a whole env, such as how much is kept and who may register."""

import click

from reach import ids
from reach.backend.bounds import SETTINGS, Setting
from reach.cli import edge

_BY_NAME = {setting.name: setting for setting in SETTINGS}


@click.group()
def settings() -> None:
    """List, set and remove the settings of an env."""


@settings.command("ls")
@edge.with_place
@edge.with_output("table", "json")
def listed(redis_url: str, env: str, form: str) -> int:
    """List them: what is set, and what holds where nothing is."""

    async def read() -> dict[str, str]:
        async with edge.opened(redis_url, env) as backend:
            return dict((await backend.snapshot()).meta)

    meta = edge.run(read())
    meta.pop("v", None)
    if form == "json":
        edge.data(edge.as_json({name: meta.get(name, setting.default) for name, setting in _BY_NAME.items()} | meta))
    else:
        rows = [(one.name, meta.get(one.name, "-"), str(one.default), one.what) for one in SETTINGS]
        rows += [
            (name, value, "-", "not known to this version")
            for name, value in sorted(meta.items())
            if name not in _BY_NAME
        ]
        edge.show(edge.table([("NAME", "SET", "DEFAULT", "WHAT"), *rows]))
    return edge.OK


@settings.command("set")
@click.argument("name")
@click.argument("value")
@edge.with_place
def set_(name: str, value: str, redis_url: str, env: str) -> int:
    """Set NAME to VALUE, a whole number. Every router follows it at once."""
    setting = _known(name)
    if setting.name == "partitions":
        raise click.UsageError(
            "partitions changes only while nothing is under way: see docs/decisions/0001-partitions.md"
        )
    if ids.count_of(value) is None:
        raise click.UsageError(f"{value!r} is no whole number from 0")
    _write(redis_url, env, name, value.encode())
    edge.say(f"{name} is {value} in env {env}")
    return edge.OK


@settings.command("rm")
@click.argument("name")
@edge.with_place
def remove(name: str, redis_url: str, env: str) -> int:
    """Go by the default of NAME again."""
    setting = _known(name)
    _write(redis_url, env, name, None)
    edge.say(f"{name} is {setting.default} in env {env}, its default")
    return edge.OK


def _known(name: str) -> Setting:
    if name not in _BY_NAME:
        raise click.UsageError(f"there is no setting {name!r}: {', '.join(_BY_NAME)}")
    return _BY_NAME[name]


def _write(url: str, env: str, name: str, value: bytes | None) -> None:
    async def write() -> None:
        async with edge.opened(url, env) as backend:
            await backend.set_meta("meta", name, value)

    edge.run(write())
