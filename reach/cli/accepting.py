"""`reach accepts`: what an agent or a capability takes."""

from typing import Any

import click
import msgspec

from reach.cli import edge
from reach.cli.stored import on_backend
from reach.registry.accepting import Acceptor, Accepts, Offer, accepted_by


@click.command()
@click.argument("pattern")
@edge.with_place
@edge.with_output("table", "json")
def accepts(pattern: str, redis_url: str, env: str, form: str) -> int:
    """Show who answers PATTERN now, and which types and schemas they take; with -o json also the JSON Schemas."""
    found = on_backend(redis_url, env, lambda backend: accepted_by(backend, pattern))
    if form == "json":
        edge.data(edge.as_json(told(found)))
    elif found.agents:
        rows = [_row(agent, offer) for agent in found.agents for offer in agent.offers or [Offer(name="-")]]
        edge.show(edge.table([("AGENT", "STATE", "CAPABILITY", "INPUT", "OUTPUT", "TAKES", "LONGEST", "COST"), *rows]))
    else:
        edge.say(f"nobody answers {pattern} in env {env}")
    return edge.OK if found.agents else edge.FAILED


def told(found: Accepts) -> dict[str, Any]:
    """All of it, for programs."""
    fields: dict[str, Any] = msgspec.to_builtins(found)
    return fields


def _row(agent: Acceptor, offer: Offer) -> tuple[str, ...]:
    takes = [f"{kind}: {'any' if names is None else ' '.join(names)}" for kind, names in agent.accepts.items()]
    takes += [f"also {schema}" for schema in agent.reads]
    longest = "-" if offer.max_process_ms is None else f"{offer.max_process_ms / 1000:g} s"
    cost = "-" if offer.cost is None else f"{offer.cost:g}"
    sides = [_side(offer.input_schema), _side(offer.output_schema)]
    return agent.agent_id, agent.state, offer.name, *sides, "; ".join(takes), longest, cost


def _side(schema: Any) -> str:
    return "-" if schema is None else schema if isinstance(schema, str) else "a JSON Schema"
