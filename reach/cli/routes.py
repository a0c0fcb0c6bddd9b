"""`reach routes`: the policies of patterns, and where a message would go."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

import click
import msgspec

from reach.backend import Backend
from reach.cli import edge
from reach.registry.routes import Route, Routes, Trial
from reach.registry.semantics import open_model
from reach.routing.steps import Deliver, Finish, Seen

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


@routes.command("test")
@click.argument("pattern")
@click.option("--scope", type=click.Choice(["one", "all"]), default="one", show_default=True)
@click.option("--type", default="request", show_default=True, help="The message type.")
@click.option("--schema", help="The schema of the body, as refund.request.v1.")
@click.option("--tier", help="The tier that it needs.")
@click.option("--zone", help="The sender's.")
@click.option("--conversation", default="", help="What `sticky` goes by, where there is no order key.")
@click.option("--order-key", default="", help="What `sticky` goes by.")
@click.option(
    "--hop", "hops", multiple=True, metavar="AGENT", help="An agent that the conversation went through; again for more."
)
@click.option(
    "--semantic", default="off", envvar="REACH_SEMANTIC", help="What the routers rank `intent:` with beside its words."
)
@edge.with_place
@edge.with_output("table", "json")
def test_(pattern: str, redis_url: str, env: str, form: str, hops: tuple[str, ...], semantic: str, **said: Any) -> int:
    """Show where a message to PATTERN would go now, who else fits, and why the others do not. Nothing is sent."""
    model = open_model(semantic)
    found = on_backend(
        redis_url, env, lambda backend: Routes(backend, model=model).test(pattern, hops=frozenset(hops), **said)
    )
    if form == "json":
        edge.data(edge.as_json(_tried(found)))
    else:
        edge.show("\n".join(_lines(found)))
    return edge.OK if _chosen(found) else edge.FAILED


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


def _chosen(trial: Trial) -> list[str]:
    return [step.agent for step in trial.choice.steps if isinstance(step, Deliver)]


def _tried(trial: Trial) -> dict[str, Any]:
    end = next((step for step in trial.choice.steps if isinstance(step, Finish)), None)
    return {
        "pattern": trial.pattern,
        "policy": trial.policy,
        "strategy": trial.strategy,
        "chosen": _chosen(trial),
        "code": end.code if end else None,
        "ranked": [one._asdict() for one in trial.ranked],
        "candidates": trial.choice.why.candidates,
        "counts": trial.choice.why.counts,
    }


def _lines(trial: Trial) -> list[str]:
    chosen, why = _chosen(trial), trial.choice.why
    end = next((step for step in trial.choice.steps if isinstance(step, Finish)), None)
    head = f"{trial.pattern} goes to {', '.join(chosen)}" if chosen else f"{trial.pattern} goes to nobody now"
    lines = [f"{head} ({trial.strategy})"]
    if end is not None:
        lines.append(f"it would end as {end.code}: {end.message}")
    elif not chosen:
        lines.append("it would wait for somebody, as far as its time allows")
    lines += [
        f"it means capability:{one.capability} (score {one.score:.1f}, knows {one.share:.0%} of it)"
        for one in trial.ranked[:1]
    ]
    lines += [f"next: capability:{one.capability} (score {one.score:.1f})" for one in trial.ranked[1:]]
    if why.candidates:
        total = sum(seen.score or 0 for seen in why.candidates)
        rows = [_row(seen, seen.agent in chosen, total) for seen in why.candidates]
        lines += ["", edge.table([("AGENT", "SHARE", "REFUSED BY", "WHY"), *rows])]
        if why.counts["matched"] > len(rows):
            lines.append(f"and {why.counts['matched'] - len(rows)} more")
    return lines


def _row(seen: Seen, chosen: bool, total: float) -> tuple[str, ...]:
    share = "-" if seen.score is None or total <= 0 else f"{seen.score / total:.1%}"
    return seen.agent, share, seen.filter or ("chosen" if chosen else "-"), seen.reason or "-"
