"""`reach agents`: who is there, and how they are."""

from typing import Any

import click

from reach.cli import edge
from reach.registry.routes import read_index
from reach.routing.agents import Agent


@click.command()
@edge.with_place
@edge.with_output("table", "json")
def agents(redis_url: str, env: str, form: str) -> None:
    """List the registered agents: their state, instances, free slots and capabilities."""
    found = edge.run(_found(redis_url, env))
    if form == "json":
        edge.data(edge.as_json(found))
    elif not found:
        edge.say(f"no agents in env {env}")
    else:
        head = ("AGENT", "STATE", "INSTANCES", "FREE", "ZONE", "CAPABILITIES")
        edge.show(edge.table([head, *map(_row, found)]))


async def _found(url: str, env: str) -> list[dict[str, Any]]:
    async with edge.opened(url, env) as backend:
        index, now_ms = await read_index(backend)
        await edge.complain_if_nobody_serves(backend, url, env)
    since_ms = index.alive_since_ms(now_ms)
    return [_facts(agent, since_ms, now_ms) for _, agent in sorted(index.agents.items())]


def _facts(agent: Agent, since_ms: int, now_ms: int) -> dict[str, Any]:
    return {
        "agent_id": agent.agent_id,
        "state": agent.state(since_ms),
        "reason": agent.reason(since_ms),
        "instances": sorted(agent.instances),
        "alive": len(agent.alive(since_ms)),
        "free_slots": agent.free_slots(since_ms),
        "last_beat_ms_ago": now_ms - agent.last_beat_ms() if agent.last_beat_ms() else None,
        "zone": agent.zone,
        "groups": sorted(agent.groups),
        "capabilities": sorted(agent.capabilities),
        "accepts": sorted(agent.accepts),
    }


def _row(facts: dict[str, Any]) -> tuple[str, ...]:
    state = f"{facts['state']} ({facts['reason']})" if facts["reason"] else facts["state"]
    return (
        facts["agent_id"],
        state,
        f"{facts['alive']}/{len(facts['instances'])}",
        str(facts["free_slots"]),
        facts["zone"] or "-",
        " ".join(facts["capabilities"]) or "-",
    )
