"""`reach explain`: why a message that was sent went where it went."""

import click

from reach.cli import edge, recorded
from reach.cli.picture import begin_of, folded, mark_told, moment, run_told, scored, spoken
from reach.envelope.policy_digest import NO_POLICY
from reach.events.decided import Decision, Decisions, Looked
from reach.events.runs import Run
from reach.events.traced import Mark
from reach.tracing.record import MAX_CANDIDATES

MAX_POLICY = 2_000


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
    """Every decision with its table, between the runs and whatever else happened, in order of time.

    Of more than 100 of these the first 80 and the last 20, and how many lie between.
    """
    legs = any(run.leg for run in found.runs)
    what = "  ".join(
        edge.brief(part) for part in (found.pattern or "?", found.msg_id, found.type, found.schema) if part
    )
    state = " (under way)" if found.open and found.code else ""
    lines = [f"{what}: {edge.brief(found.code) or 'no end recorded'}{state}"]
    policy = bytes(found.policy).decode() if found.policy is not None else "none, so the default holds"
    lines.append(f"policy now: {edge.brief(policy, MAX_POLICY)}")
    if not found.decisions:
        lines.append("no decision is recorded")

    def told(one: Decision | Run | Mark) -> list[str]:
        if isinstance(one, Decision):
            return _decision(one, found)
        return [f"  {run_told(one, legs=legs) if isinstance(one, Run) else mark_told(one, legs=legs)}"]

    all_: list[tuple[int, Decision | Run | Mark]] = [(one.at_us, one) for one in found.decisions]
    all_ += [(begin_of(run), run) for run in found.runs]
    all_ += [(mark.at_us, mark) for mark in found.marks]
    all_.sort(key=lambda one: one[0])  # of one moment the decision comes first, then the run
    for more in folded(all_, told, lambda _, number: ["", f"... and {number} more: -o json has all"]):
        lines += more
    return lines


def _decision(one: Decision, found: Decisions) -> list[str]:
    chosen = (
        f"{edge.brief(one.strategy) or 'nothing to choose'}: {edge.briefly(one.chosen)}" if one.chosen else "nobody"
    )
    refused = [f"{name} {count}" for name, count in one.counts.items() if name not in {"matched", "fit"}]
    by = f"; refused by {edge.briefly(refused)}" if refused else ""
    leg = f", leg {one.leg}" if one.leg else ""
    again = f", before run {one.attempt}" if one.attempt > 1 else ""
    head = f"{moment(one.at_us)} (+{spoken(one.at_us - found.began_at_us)}{leg}{again}) {chosen}"
    took = f", decided in {one.decided_us} us" if one.decided_us else ""
    lines = ["", head, f"{one.counts.get('matched', 0)} answer the pattern, {one.counts.get('fit', 0)} fit{by}{took}"]
    lines += [_another(edge.brief(one.policy))] if one.policy and one.policy != found.policy_digest else []
    lines += [f"nobody fitted: by the fallback {edge.brief(one.via)}"] if one.via else []
    lines += [f"tier {edge.brief(one.tier)}"] if one.tier else []
    lines += [f"it ended as {edge.brief(one.code)}"] if one.code else []
    if one.candidates:
        shown = one.candidates[:MAX_CANDIDATES]
        lines.append(edge.table([("AGENT", "SCORE", "SHARE", "REFUSED BY", "WHY"), *map(_row, shown)]))
        more = max(one.counts.get("matched", 0), len(one.candidates)) - len(shown)
        lines += [f"and {more} more"] if more > 0 else []
    return lines


def _another(policy: str) -> str:
    then = "none was set, the default held" if policy == NO_POLICY else f"another one held ({policy})"
    return f"the policy has changed since: {then}"


def _row(one: Looked) -> tuple[str, ...]:
    share = "-" if one.share is None else f"{one.share:.1%}"
    by = edge.brief(one.filter) or ("chosen" if one.chosen else "-")
    return edge.brief(one.agent), scored(one.score), share, by, edge.brief(one.reason) or "-"
