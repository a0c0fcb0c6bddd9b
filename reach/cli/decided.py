"""`reach explain`: why a message that was sent went where it went."""

import click

from reach.cli import edge, recorded
from reach.cli.picture import mark_told, moment, run_told, scored, spoken
from reach.envelope.policy_digest import NO_POLICY
from reach.events.decided import Decision, Decisions, Looked
from reach.events.traced import Run


@click.command()
@click.argument("msg_id")
@recorded.with_store
@edge.with_place
@edge.with_output("text", "json")
def explain(msg_id: str, store: str | None, redis_url: str, env: str, form: str) -> int:
    """Show why the message MSG_ID went where it went: who was looked at, which filter refused whom, scores, the draw, every attempt.

    Where a message would go that is not sent yet: reach routes test.
    """

    async def ask() -> Decisions | None:
        async with recorded.asking(redis_url, env, store) as events:
            return await events.explain(msg_id)

    found = edge.run(ask())
    if found is None:
        return recorded.nothing_of(msg_id, env, store)
    edge.data(edge.as_json(found)) if form == "json" else edge.show("\n".join(lines_of(found)))
    return edge.OK


def lines_of(found: Decisions) -> list[str]:
    """Every decision with its table, between the runs and whatever else happened, in order of time."""
    legs = any(run.leg for run in found.runs)
    what = "  ".join(part for part in (found.pattern or "?", found.msg_id, found.type, found.schema) if part)
    lines = [f"{what}: {found.code or 'no end recorded'}{' (under way)' if found.open and found.code else ''}"]
    policy = bytes(found.policy).decode() if found.policy is not None else "none, so the default holds"
    lines.append(f"policy now: {policy}")
    told = [(one.at_us, 0, _decision(one, found)) for one in found.decisions]
    told += [(_begin(run), 1, [f"  {run_told(run, legs=legs)}"]) for run in found.runs]
    told += [(mark.at_us, 2, [f"  {mark_told(mark, legs=legs)}"]) for mark in found.marks]
    if not found.decisions:
        lines.append("no decision is recorded")
    for _, _, more in sorted(told, key=lambda one: one[:2]):
        lines += more
    return lines


def _begin(run: Run) -> int:
    return next((at for at in (run.sent_at_us, run.began_at_us, run.ended_at_us) if at is not None), 0)


def _decision(one: Decision, found: Decisions) -> list[str]:
    chosen = f"{one.strategy or 'nothing to choose'}: {', '.join(one.chosen)}" if one.chosen else "nobody"
    refused = {name: count for name, count in one.counts.items() if name not in {"matched", "fit"}}
    by = f"; refused by {', '.join(f'{name} {count}' for name, count in refused.items())}" if refused else ""
    leg = f", leg {one.leg}" if one.leg else ""
    again = f", before run {one.attempt}" if one.attempt > 1 else ""
    head = f"{moment(one.at_us)} (+{spoken(one.at_us - found.began_at_us)}{leg}{again}) {chosen}"
    took = f", decided in {one.decided_us} us" if one.decided_us else ""
    lines = ["", head, f"{one.counts.get('matched', 0)} answer the pattern, {one.counts.get('fit', 0)} fit{by}{took}"]
    lines += [_another(one.policy)] if one.policy and one.policy != found.policy_digest else []
    lines += [f"nobody fitted: by the fallback {one.via}"] if one.via else []
    lines += [f"tier {one.tier}"] if one.tier else []
    lines += [f"it ended as {one.code}"] if one.code else []
    if one.candidates:
        lines.append(edge.table([("AGENT", "SCORE", "SHARE", "REFUSED BY", "WHY"), *map(_row, one.candidates)]))
        more = one.counts.get("matched", 0) - len(one.candidates)
        lines += [f"and {more} more"] if more > 0 else []
    return lines


def _another(policy: str) -> str:
    then = "none was set, the default held" if policy == NO_POLICY else f"another one held ({policy})"
    return f"the policy has changed since: {then}"


def _row(one: Looked) -> tuple[str, ...]:
    share = "-" if one.share is None else f"{one.share:.1%}"
    return one.agent, scored(one.score), share, one.filter or ("chosen" if one.chosen else "-"), one.reason or "-"
