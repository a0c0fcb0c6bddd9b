"""`reach agents`: who is there, and how they are."""

from typing import Any

import click

from reach.cli import edge
from reach.registry.offline import read_offline
from reach.registry.routes import read_index
from reach.routing.agents import Agent
from reach.routing.index import CapabilityIndex


@click.command()
@edge.with_place
@click.option("--offline", is_flag=True, help="Those that have gone within the last 24 h: when and why.")
@edge.with_output("table", "json")
def agents(redis_url: str, env: str, offline: bool, form: str) -> None:
    """List the registered agents: their state, instances, free slots and capabilities."""
    if offline:
        _show_offline(redis_url, env, form)
        return
    found = edge.run(_found(redis_url, env))
    if form == "json":
        edge.data(edge.as_json(found))
    elif not found:
        edge.say(f"no agents in env {env}")
    else:
        head = ("AGENT", "STATE", "INSTANCES", "FREE", "ZONE", "CAPABILITIES")
        edge.show(edge.table([head, *map(_row, found)]))


def _show_offline(url: str, env: str, form: str) -> None:
    found = edge.run(_gone(url, env))
    if form == "json":
        edge.data(edge.as_json(found))
    elif not found:
        edge.say(f"no agent of env {env} has gone within the last 24 h")
    else:
        rows = [(one["agent_id"], one["why"], _ago(one["gone_ms_ago"]), _ago(one["last_beat_ms_ago"])) for one in found]
        edge.show(edge.table([("AGENT", "WHY", "GONE", "LAST BEAT"), *rows]))


async def _gone(url: str, env: str) -> list[dict[str, Any]]:
    async with edge.opened(url, env) as backend:
        offline, now_ms = await read_offline(backend)
    return [
        {
            "agent_id": one.agent_id,
            "why": one.why,
            "gone_at_ms": one.at_ms,
            "gone_ms_ago": now_ms - one.at_ms,
            "last_beat_ms_ago": now_ms - one.seen_at_ms if one.seen_at_ms is not None else None,
        }
        for one in offline.within(now_ms)
    ]


def _ago(ms: int | None) -> str:
    """As people say it; `-` where nobody knows."""
    if ms is None:
        return "-"
    seconds = max(ms, 0) // 1000
    if seconds < 120:
        return f"{seconds} s ago"
    return f"{seconds // 60} min ago" if seconds < 7_200 else f"{seconds // 3_600} h ago"


async def _found(url: str, env: str) -> list[dict[str, Any]]:
    async with edge.opened(url, env) as backend:
        index, now_ms = await read_index(backend)
        await edge.complain_if_nobody_serves(backend, url, env)
    since_ms = index.alive_since_ms(now_ms)
    return [
        _facts(agent, since_ms, now_ms) | {"circuits": _circuits(index, agent.agent_id, now_ms)}
        for _, agent in sorted(index.agents.items())
    ]


def _circuits(index: CapabilityIndex, agent_id: str, now_ms: int) -> list[dict[str, Any]]:
    """Those that are not closed; one whose time is over waits for its probe."""
    return [
        {"partition": partition, "why": circuit.why, "probe_in_ms": max(circuit.until_ms - now_ms, 0)}
        for partition, circuit in sorted(index.circuits.get(agent_id, {}).items())
    ]


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
    told = [facts["reason"]] if facts["reason"] else []
    told += [_told(circuit) for circuit in facts["circuits"][:1]]
    state = f"{facts['state']} ({'; '.join(told)})" if told else facts["state"]
    return (
        facts["agent_id"],
        state,
        f"{facts['alive']}/{len(facts['instances'])}",
        str(facts["free_slots"]),
        facts["zone"] or "-",
        " ".join(facts["capabilities"]) or "-",
    )


def _told(circuit: dict[str, Any]) -> str:
    wait = (
        f"asked again in {circuit['probe_in_ms'] / 1000:.0f} s" if circuit["probe_in_ms"] else "asked again by a probe"
    )
    return f"circuit open: {circuit['why']}, {wait}"
