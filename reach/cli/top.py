"""`reach top`: the agents of an env, as they are and as they have done over the last minute, again and again."""

import sys
from typing import Any

import click
import msgspec

from reach.backend import Backend
from reach.cli import edge
from reach.clock import SystemClock
from reach.events.catching_up import CatchingUp
from reach.events.pace import WINDOW_US, Pace, Window
from reach.registry.routes import read_index
from reach.routing.agents import Agent

_HOME = "\x1b[H\x1b[2J"
_HEAD = ("AGENT", "STATE", "INSTANCES", "LOAD", "IN FLIGHT", "INBOX", "PER S", "SUCCESS", "P50", "P99")


class Line(msgspec.Struct, frozen=True, kw_only=True):
    """One agent. `load`: how full it is, 0 to 1; `inbox`: what lies there, running ones included; `pace`: of the last minute."""

    agent: str
    state: str
    reason: str = ""
    alive: int = 0
    instances: int = 0
    load: float = 0.0
    in_flight: int = 0
    inbox: int = 0
    pace: Pace = Pace()


@click.command()
@click.option("--once", is_flag=True, help="Show it once, and end.")
@click.option(
    "--every", type=click.FloatRange(0.1, 3600), default=2.0, show_default=True, metavar="SECONDS", help="How often."
)
@edge.with_place
@edge.with_output("table", "json")
def top(once: bool, every: float, redis_url: str, env: str, form: str) -> int:
    """Show the agents, the busiest first: state, load, inbox, and rate, success, p50, p99 of the last minute; until Ctrl-C."""
    edge.run(_show(redis_url, env, form, once=once, every_ms=round(every * 1000)))
    return edge.OK


async def _show(url: str, env: str, form: str, *, once: bool, every_ms: int) -> None:
    window = Window()
    async with edge.opened(url, env) as backend:
        catching_up = CatchingUp(backend, window)
        await edge.complain_if_nobody_serves(backend, url, env)
        while True:
            await catching_up.run()
            lines = await look(backend, window)
            if form == "json":
                edge.data(edge.as_json(lines, indent=2 if once else 0))
            else:
                if sys.stdout.isatty() and not once:
                    click.echo(_HOME, nl=False)
                edge.show(table_of(lines) if lines else f"no agents in env {env}")
            sys.stdout.flush()
            if once:
                return
            await SystemClock().sleep(every_ms)


async def look(backend: Backend, window: Window) -> list[Line]:
    """All agents now, the busiest first.

    Raises:
        BackendError: They cannot be read.
    """
    index, now_ms = await read_index(backend)
    paces, none = window.paces(now_ms * 1000), Pace(of_s=window.seconds(now_ms * 1000))
    names = sorted(index.agents)
    inboxes = dict(zip(names, await backend.lying(names), strict=True))
    since_ms = index.alive_since_ms(now_ms)
    lines = [_line(index.agents[name], since_ms, inboxes[name], paces.get(name, none)) for name in names]
    return sorted(lines, key=lambda line: (-line.pace.runs, -line.inbox, line.agent))


def _line(agent: Agent, since_ms: int, inbox: int, pace: Pace) -> Line:
    alive = agent.alive(since_ms)
    slots = agent.declared.concurrency * len(alive)
    in_flight = sum(max(one.beat.inflight, 0) for one in alive)
    return Line(
        agent=agent.agent_id,
        state=agent.state(since_ms),
        reason=agent.reason(since_ms),
        alive=len(alive),
        instances=len(agent.instances),
        load=in_flight / slots if slots else 0.0,
        in_flight=in_flight,
        inbox=inbox,
        pace=pace,
    )


def table_of(lines: list[Line]) -> str:
    """For people; below it what the numbers do not tell."""
    notes = []
    of_s = min((line.pace.of_s for line in lines), default=WINDOW_US / 1e6)
    if of_s < WINDOW_US / 1e6:
        notes.append(
            f"Redis keeps the records of the last {of_s:.1f} s only (max_events): rate, success and times are of these"
        )
    if any(line.pace.at_least for line in lines):
        notes.append(
            "records of the last minute were dropped before they were written: there were more runs than these"
        )
    return "\n".join([edge.table([_HEAD, *map(_row, lines)]), *notes])


def _row(line: Line) -> tuple[str, ...]:
    pace = line.pace
    success = "-" if pace.success is None else f"{pace.success:.1%}"
    took: list[Any] = ["-" if ms is None else f"{ms:.0f} ms" for ms in (pace.p50_ms, pace.p99_ms)]
    state = f"{line.state} ({edge.brief(line.reason)})" if line.reason else line.state
    numbers = (
        f"{line.load:.0%}",
        str(line.in_flight),
        str(line.inbox),
        f"{'>= ' * pace.at_least}{pace.per_s:.1f}",
        success,
    )
    return edge.brief(line.agent), state, f"{line.alive}/{line.instances}", *numbers, *took
