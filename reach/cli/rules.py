"""`reach rules`: who may call whom."""

import click
import msgspec

from reach.cli import edge
from reach.cli.stored import given, list_entries, on_backend
from reach.registry.call_rules import Permits, Rules


@click.group()
def rules() -> None:
    """List, set and remove the rules of who may call whom, and try what a sender may call."""


@rules.command("ls")
@edge.with_place
@edge.with_output("table", "json")
def listed(redis_url: str, env: str, form: str) -> int:
    """List the rules. One that denies outweighs all that allow; `reach settings set closed 1` forbids what none allows."""
    found = on_backend(redis_url, env, lambda backend: Rules(backend).list())
    list_entries("name", "rule", [(one.name, one.rule, one.problem) for one in found], form, f"no rules in env {env}")
    return edge.OK


@rules.command("set")
@click.argument("name")
@click.argument("rule")
@edge.with_place
def set_(name: str, rule: str, redis_url: str, env: str) -> int:
    """Set the rule NAME. Every router follows it at once.

    RULE is JSON, or @file, such as {"source": "shop-*", "target": "capability:refund.*", "effect": "deny"}.
    """
    data = given(rule)
    said = on_backend(redis_url, env, lambda backend: Rules(backend).set(name, data))
    verb = "may call" if said.effect == "allow" else "may not call"
    edge.say(f"{name}: {said.source} {verb} {said.target}" + (f", type {said.type}" if said.type else ""))
    return edge.OK


@rules.command("rm")
@click.argument("name")
@edge.with_place
def remove(name: str, redis_url: str, env: str) -> int:
    """Take the rule NAME away."""
    if on_backend(redis_url, env, lambda backend: Rules(backend).remove(name)):
        edge.say(f"{name} is gone")
        return edge.OK
    edge.say(f"reach: there is no rule {name}")
    return edge.FAILED


@rules.command("test")
@click.argument("source")
@click.argument("pattern")
@click.option("--name", default="", help="The name of all replicas of the source.")
@click.option("--type", default="request", show_default=True, help="The message type.")
@edge.with_place
@edge.with_output("table", "json")
def test_(source: str, pattern: str, name: str, type: str, redis_url: str, env: str, form: str) -> int:
    """Show whom SOURCE, an agent_id, may call of those that answer PATTERN. Status 1: nobody. Nothing is sent."""
    found = on_backend(redis_url, env, lambda backend: Rules(backend).test(source, pattern, name=name, type=type))
    if form == "json":
        edge.data(edge.as_json({**msgspec.to_builtins(found), "allowed": found.allowed}))
    else:
        edge.show(_shown(found))
    return edge.OK if found.allowed else edge.FAILED


def _shown(found: Permits) -> str:
    state = "closed: only what a rule allows" if found.closed else "open: whatever no rule denies"
    if not found.agents:
        return f"nobody answers {found.pattern} (the env is {state})"
    verb = "may" if found.allowed else "may not"
    rows = [(one.agent, "yes" if one.allowed else "no", one.reason or "-") for one in found.agents]
    table = edge.table([("AGENT", "MAY", "WHY"), *rows])
    return f"{found.source} {verb} call {found.pattern} (the env is {state})\n\n{table}"
