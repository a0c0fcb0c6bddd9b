"""`reach routes`: the policies of patterns, and where a message would go."""

import click

from reach.cli import edge
from reach.cli.stored import given, list_entries, on_backend
from reach.registry.routes import Routes


@click.group()
def routes() -> None:
    """List, set and remove the policies of patterns, and try where a message would go."""


@routes.command("ls")
@edge.with_place
@edge.with_output("table", "json")
def listed(redis_url: str, env: str, form: str) -> int:
    """List the policies, and what is wrong with one that was not set by `reach routes set`; patterns without one go by the default."""
    found = on_backend(redis_url, env, lambda backend: Routes(backend).list())
    entries = [(route.pattern, route.policy, route.problem) for route in found]
    list_entries("pattern", "policy", entries, form, f"no policies in env {env}: every pattern goes by the default")
    return edge.OK


@routes.command("set")
@click.argument("pattern")
@click.argument("policy")
@edge.with_place
def set_(pattern: str, policy: str, redis_url: str, env: str) -> int:
    """Give PATTERN its policy: POLICY is JSON, or @file. Every router follows it at once."""
    data = given(policy)
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
