"""`reach routes test`: where a message would go, who else fits, and why the others do not."""

from typing import Any

import click
import msgspec

from reach import ids
from reach.cli import edge
from reach.cli.messages import SENDER, Needed, read_body
from reach.cli.picture import scored
from reach.cli.stored import on_backend
from reach.clock import SystemClock
from reach.envelope.message import Envelope, Source, Traces
from reach.registry.routes import MAX_DRAWS, Routes
from reach.registry.semantics import open_model
from reach.routing.explain import Candidate, Explanation
from reach.sdk.options import Options, compose


@click.command("test")
@click.argument("pattern")
@click.option("--body", metavar="FILE", help="The body: a file, or - for stdin; JSON, or any other text.")
@click.option("--scope", type=click.Choice(["one", "all"]), default="one", show_default=True)
@click.option("--type", default="request", show_default=True, help="The message type.")
@click.option("--schema", help="The schema of the body, as refund.request.v1.")
@click.option(
    "--needs", type=Needed(), multiple=True, help="What its agent must have: tier=large, context_tokens=8000."
)
@click.option("--source", default=SENDER, show_default=True, metavar="AGENT", help="Who sends it.")
@click.option("--name", help="The name of all replicas of the sender.")
@click.option("--zone", help="The sender's.")
@click.option("--conversation", help="What `sticky` goes by, where there is no order key.")
@click.option("--order-key", help="What `sticky` goes by.")
@click.option(
    "--hop", "hops", multiple=True, metavar="AGENT", help="An agent that the conversation went through; again for more."
)
@click.option("--answers", default="", metavar="AGENT", help="It answers a message of this sender.")
@click.option("--at", "partition", type=click.IntRange(0), help="The partition in which it lies.")
@click.option("-n", "draws", type=click.IntRange(1, MAX_DRAWS), default=1, show_default=True, help="Draw so often.")
@click.option(
    "--semantic", default="off", envvar="REACH_SEMANTIC", help="What the routers rank `intent:` with beside its words."
)
@edge.with_place
@edge.with_output("table", "json")
def test_(redis_url: str, env: str, form: str, draws: int, partition: int | None, semantic: str, **said: Any) -> int:
    """Show where a message to PATTERN would go now, who else fits, and why the others do not. Nothing is sent.

    PATTERN may also be a bare name, as for send. Status 1: nobody would get it now.
    """
    answers = said.pop("answers")
    envelope, model = _envelope(**said), open_model(semantic)
    try:
        found = on_backend(
            redis_url,
            env,
            lambda backend: Routes(backend, model=model).explain(
                envelope, partition=partition, draws=draws, replies_to=answers
            ),
        )
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    edge.data(edge.as_json(found)) if form == "json" else edge.show("\n".join(_lines(found)))
    return edge.OK if found.chosen else edge.FAILED


def _envelope(
    *,
    pattern: str,
    body: str | None,
    scope: Any,
    type: str,
    schema: str | None,
    needs: tuple[tuple[str, Any], ...],
    source: str,
    name: str | None,
    zone: str | None,
    conversation: str | None,
    order_key: str | None,
    hops: tuple[str, ...],
) -> Envelope:
    options: Options = {
        "type": type,
        "schema": schema,
        "needs": dict(needs) or None,
        "correlation_id": conversation or None,
        "order_key": order_key or None,
    }
    made = compose(
        msg_id=ids.new_msg_id(),
        source=Source(agent_id=source, name=name, zone=zone),
        pattern=pattern,
        scope=scope,
        body=read_body(f"@{body}" if body is not None and body != "-" else body),
        options=options,
        reply_to=ids.new_mailbox_id(),
        now_ms=SystemClock().wall_ms(),
        total_ms=None,
    )
    return msgspec.structs.replace(made, traces=Traces(previous_hops=hops))


def _lines(found: Explanation) -> list[str]:
    head = (
        f"{found.pattern} goes to {', '.join(found.chosen)}" if found.chosen else f"{found.pattern} goes to nobody now"
    )
    lines = [f"{head} ({found.strategy})"]
    if found.tier_why:
        lines.append(f"it needs {f'tier {found.tier}' if found.tier else 'no tier'}: {found.tier_why}")
    if found.via:
        lines.append(f"nobody else fits: it falls back to {found.via}")
    if found.code:
        lines.append(f"it would end as {found.code}: {found.message}")
        if found.retry_after_ms is not None:
            lines.append(f"and may come back in {found.retry_after_ms / 1000:g} s")
    elif found.delayed:
        lines.append(f"its legs for {', '.join(found.delayed)} would wait")
    elif not found.chosen:
        lines.append("it would wait for somebody, as far as its time allows")
    policy = msgspec.json.encode(found.policy).decode() if found.has_policy else "none, so the default holds"
    lines.append(f"policy: {policy}")
    if found.policy.fallback is not None:
        lines.append(f"fallback: {found.policy.fallback}")
    lines += [
        f"it means capability:{one.capability} (score {one.score:.1f}, knows {one.share:.0%} of it)"
        for one in found.means[:1]
    ]
    lines += [f"next: capability:{one.capability} (score {one.score:.1f})" for one in found.means[1:]]
    if found.candidates:
        total = sum(one.score or 0 for one in found.candidates)
        head_row = (
            ("AGENT", "SCORE", "SHARE", "REFUSED BY", "WHY")
            if found.draws == 1
            else (*("AGENT", "SCORE", "SHARE", f"OF {found.draws}", "REFUSED BY", "WHY"),)
        )
        rows = [_row(one, total, found.draws) for one in found.candidates]
        lines += ["", edge.table([head_row, *rows])]
        if found.counts["matched"] > len(rows):
            lines.append(f"and {found.counts['matched'] - len(rows)} more")
        refused = {name: count for name, count in found.counts.items() if name not in {"matched", "fit"}}
        by = f"; refused by {', '.join(f'{name} {count}' for name, count in refused.items())}" if refused else ""
        lines.append(f"{found.counts['matched']} answer the pattern, {found.counts['fit']} fit{by}")
    return lines


def _row(one: Candidate, total: float, draws: int) -> tuple[str, ...]:
    share = "-" if one.score is None or total <= 0 else f"{one.score / total:.1%}"
    drawn = (f"{one.share:.1%}" if not one.filter else "-",) if draws > 1 else ()
    return (
        one.agent,
        scored(one.score),
        share,
        *drawn,
        one.filter or ("chosen" if one.chosen else "-"),
        one.reason or "-",
    )
