"""`reach settings`: what holds for a whole env, such as how much is kept and who may register."""

import click

from reach import ids
from reach.backend.bounds import SETTINGS, TEXT_SETTINGS, Setting, TextSetting
from reach.cli import edge

_BY_NAME: dict[str, Setting | TextSetting] = {one.name: one for one in SETTINGS} | {
    one.name: one for one in TEXT_SETTINGS
}


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
        edge.data(
            edge.as_json({one.name: one.default for one in SETTINGS} | {one.name: None for one in TEXT_SETTINGS} | meta)
        )
    else:
        rows = [(one.name, meta.get(one.name, "-"), str(one.default), one.what) for one in SETTINGS]
        rows += [(one.name, meta.get(one.name, "-"), "-", one.what) for one in TEXT_SETTINGS]
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
    """Set NAME to VALUE: a whole number, or a list of networks. Every router follows it at once."""
    setting = _known(name)
    if setting.name == "partitions":
        raise click.UsageError(
            "partitions changes only while nothing is under way: see docs/decisions/0001-partitions.md"
        )
    if isinstance(setting, TextSetting):
        problem = setting.problem(value)
        if problem is not None:
            raise click.UsageError(f"{name}: {problem}")
    elif ids.count_of(value) is None:
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
    holds = "not set" if isinstance(setting, TextSetting) else f"{setting.default}"
    edge.say(f"{name} is {holds} in env {env}, its default")
    return edge.OK


def _known(name: str) -> Setting | TextSetting:
    if name not in _BY_NAME:
        raise click.UsageError(f"there is no setting {name!r}: {', '.join(_BY_NAME)}")
    return _BY_NAME[name]


def _write(url: str, env: str, name: str, value: bytes | None) -> None:
    async def write() -> None:
        async with edge.opened(url, env) as backend:
            await backend.set_meta("meta", name, value)

    edge.run(write())
