"""`reach capacity`: how many instances each capability wants."""

import click

from reach.cli import edge
from reach.registry.capacity import Capacity, read_capacity


@click.command()
@edge.with_place
@edge.with_output("table", "json")
def capacity(redis_url: str, env: str, form: str) -> None:
    """Show what is asked of each capability, over all routers, and how many instances it wants: for people and autoscalers."""
    found = edge.run(_found(redis_url, env))
    if form == "json":
        edge.data(edge.as_json(found))
    elif not found:
        edge.say(f"nothing is asked of any capability in env {env}")
    else:
        head = ("CAPABILITY", "AGENTS", "SLOTS", "IN FLIGHT", "BACKLOG", "WAITING", "PER S", "INSTANCES", "WANTED")
        edge.show(edge.table([head, *map(_row, found)]))


async def _found(url: str, env: str) -> list[Capacity]:
    async with edge.opened(url, env) as backend:
        found, _ = await read_capacity(backend)
    return found


def _row(one: Capacity) -> tuple[str, ...]:
    numbers = (
        one.agents,
        one.slots,
        f"{one.inflight:g}",
        one.backlog,
        f"{one.waiting:.1f}",
        f"{one.arrivals_per_s:.1f}",
    )
    return one.capability, *map(str, numbers), str(one.instances), str(one.wanted)
