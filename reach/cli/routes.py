"""`reach routes`: the policies of patterns, and where a message would go."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

import click
import msgspec

from reach.backend import Backend
from reach.cli import edge
from reach.registry.routes import Route, Routes

T = TypeVar("T")


@click.group()
def routes() -> None:
    """List, set and remove the policies of patterns, and try where a message would go."""


@routes.command("ls")
@edge.with_place
@edge.with_output("table", "json")
def listed(redis_url: str, env: str, form: str) -> int:
    """List the policies; patterns without one go by the default."""
    found = on_backend(redis_url, env, lambda backend: Routes(backend).list())
    if form == "json":
        edge.data(edge.as_json([_told(route) for route in found]))
    elif found:
        rows = [(route.pattern, route.policy.decode("utf-8", "replace"), route.problem or "-") for route in found]
        edge.show(edge.table([("PATTERN", "POLICY", "PROBLEM"), *rows]))
    else:
        edge.say(f"no policies in env {env}: every pattern goes by the default")
    return edge.OK


@routes.command("set")
@click.argument("pattern")
@click.argument("policy")
@edge.with_place
def set_(pattern: str, policy: str, redis_url: str, env: str) -> int:
    """Give PATTERN its policy: POLICY is JSON, or @file. Every router follows it at once."""
    data = read_file(policy[1:]) if policy.startswith("@") else policy.encode("utf-8", "surrogateescape")
    on_backend(redis_url, env, lambda backend: Routes(backend).set(pattern, data))
    edge.say(f"{pattern} has its policy")
    return edge.OK


@routes.command("rm")
@click.argument("pattern")
@edge.with_place
def remove(pattern: str, redis_url: str, env: str) -> int:
    """Take the policy of PATTERN away: it goes by the default again."""
    if on_backend(redis_url, env, lambda backend: Routes(backend).remove(pattern)):
        edge.say(f"{pattern} goes by the default")
        return edge.OK
    edge.say(f"reach: {pattern} has no policy")
    return edge.FAILED


def on_backend(url: str, env: str, work: Callable[[Backend], Awaitable[T]]) -> T:
    """Do some work on the backend of an env, which is opened for it."""

    async def done() -> T:
        async with edge.opened(url, env) as backend:
            return await work(backend)

    return edge.run(done())


def read_file(name: str) -> bytes:
    """The bytes of a file. Raises click.UsageError where it cannot be read."""
    try:
        return Path(name).read_bytes()
    except OSError as error:
        raise click.UsageError(f"{name} cannot be read: {error.strerror}") from error


def _told(route: Route) -> dict[str, Any]:
    policy = msgspec.Raw(route.policy) if not route.problem else route.policy.decode("utf-8", "replace")
    return {"pattern": route.pattern, "policy": policy, "problem": route.problem or None}
