"""`reach-worker`: run, check, version. Every option is also an environment variable; bare `reach-worker` runs."""

import asyncio
import os
import sys
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import click

from reach.backend import open_backend
from reach.errors import BackendError, ConfigError, ReachError
from reach.settings import TABLE, Settings, load, safe_url
from reach_worker import logs, process

EXIT_FAILED, EXIT_UNAVAILABLE, EXIT_CONFIG = 1, 69, 78
CHECK_TIMEOUT_S = 10.0


class RunByDefault(click.Group):
    """A group whose bare call, or one that starts with an option of `run`, is `run`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Put `run` in front of what names no command."""
        if not args or (args[0].startswith("-") and args[0] not in {"--help", "-h", "--version"}):
            args = ["run", *args]
        return super().parse_args(ctx, args)


def with_settings(*fields: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Options for these settings, or for all."""

    def add(command: Callable[..., None]) -> Callable[..., None]:
        for setting in reversed(TABLE):
            if not fields or setting.field in fields:
                shown = f" [default: {setting.default}]" if setting.default else ""
                text = f"{setting.help} [env: {setting.variable}]{shown}"
                command = click.option(f"--{setting.option}", setting.field, metavar="TEXT", help=text)(command)
        return command

    return add


@click.group(cls=RunByDefault, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="reachmq", prog_name="reach-worker")
def main() -> None:
    """A worker of reach: it routes messages between agents. Several share the work."""


@main.command()
@with_settings()
@click.option("--exit-with-stdin", is_flag=True, hidden=True, help="Drain when stdin ends: whoever started it is gone.")
def run(exit_with_stdin: bool, **options: Any) -> None:
    """Serve until SIGTERM, then drain and exit 0. Redis may be away at the start and at any time."""
    settings = _settings(options)
    logs.set_up(settings.log_format, settings.log_level)
    try:
        status = process.run(settings, os.environ, exit_with_stdin=exit_with_stdin)
    except ConfigError as error:
        _fail(error, EXIT_CONFIG)
    else:
        sys.exit(status)


@main.command()
@with_settings("redis_url", "env")
def check(**options: Any) -> None:
    """Connect to Redis, say what was found, and exit: 0 usable, 69 not reachable, 78 bad settings."""
    settings = _settings(options)
    try:
        asyncio.run(_check(settings))
    except ConfigError as error:
        _fail(error, EXIT_CONFIG)
    except (BackendError, TimeoutError) as error:
        _fail(error, EXIT_UNAVAILABLE)


@main.command("version")
def show_version() -> None:
    """Print the version."""
    click.echo(own_version())


def own_version() -> str:
    """The version that is installed."""
    try:
        return version("reachmq")
    except PackageNotFoundError:  # run from a checkout that is not installed
        return "unknown"


async def _check(settings: Settings) -> None:
    backend = open_backend(settings.redis_url, env=settings.env)
    try:
        async with asyncio.timeout(CHECK_TIMEOUT_S):
            await backend.open()
            found = await backend.snapshot()
        click.echo(f"redis       {safe_url(settings.redis_url)}")
        click.echo(f"env         {settings.env}")
        click.echo(f"partitions  {backend.partitions}")
        click.echo(f"durability  {backend.durability}")
        click.echo(f"agents      {len(found.agents)}")
    finally:
        await backend.close()


def _settings(options: dict[str, Any]) -> Settings:
    try:
        settings = load(os.environ, options)
        if settings.redis_url.startswith("memory:"):
            problem = "memory:// lives inside one process, where no worker is needed: say redis://..., or use Reach.embedded()"
            raise ConfigError(problem, details={"problems": [problem]})
        return settings
    except ConfigError as error:
        for problem in error.details.get("problems", ()):
            click.echo(f"reach-worker: {problem}", err=True)
        sys.exit(EXIT_CONFIG)


def _fail(error: Exception, status: int) -> None:
    text = error.message if isinstance(error, ReachError) else str(error) or "no answer in time"
    click.echo(f"reach-worker: {text}", err=True)
    sys.exit(status)


if __name__ == "__main__":
    main()
