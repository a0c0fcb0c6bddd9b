"""What happens to a leg that fits nobody: it looks again soon until its wait is over, then it ends with what was missing."""

from collections.abc import Mapping

from reach.envelope.ledger import Leg
from reach.routing.agents import Agent
from reach.routing.filters import ABLE, MISSING, Sifted, View
from reach.routing.message import Message
from reach.routing.reasons import ended, reasons, why_of
from reach.routing.room import lacks_context, room_in_ms
from reach.routing.steps import Choice, Delay, Finish, Step

#: A leg that finds nobody looks again after so long, doubling; the end of a wait is never missed by more than the last step.
FIRST_RECHECK_MS, LAST_RECHECK_MS = 200, 2_000
#: While agents come back after the registry was lost, they are expected at any moment.
SETTLING_RECHECK_MS = 500
#: What is offered and fits nobody ends so long before total (a tenth of it where it is short): the caller then hears why, not only
#: that time is up. What nobody offers is waited for through all of network_ms.
AHEAD_MS = 500
NO_AGENTS: Mapping[str, Agent] = {}


def nobody(
    message: Message, leg: Leg | None, sifted: Sifted, view: View, agents: Mapping[str, Agent] = NO_AGENTS
) -> Choice:
    """Look again soon, until the wait is over; then say what was missing."""
    why = why_of("", sifted)
    was_with_somebody = leg is not None and bool(leg.agent or leg.core)
    waits, lacking = _circuits(sifted, message, view), _lacking(sifted, message, view, agents)
    full = _full(sifted, view, agents) or (lacking if lacking and lacking.code == "context.exceeded" else None)
    if (end := _at_once(message, sifted, view, full, is_new=not was_with_somebody)) is not None:
        return ended(end, why)
    over = _over_rate(message, leg, sifted, view)
    if over is not None:
        return Choice((over,), why)
    network_at_ms, last_ms = message.start_at_ms + message.network_ms, last_look_ms(message)
    end_ms = last_ms
    # To end as not found is final: while agents come back only total may end it.
    unheard = not was_with_somebody and not sifted.refused
    if unheard:
        end_ms = min(network_at_ms, message.total_at_ms)  # where both run out together, `due` says that total has
    elif not was_with_somebody and message.scope == "all":
        end_ms = min(network_at_ms, last_ms)
    if (waits or lacking) and not (leg is not None and leg.handed):
        end_ms = min(end_ms, last_look_ms(message, message.first_at_ms))
    end_ms = max(end_ms, min(view.settling_until_ms, message.total_at_ms if unheard else last_ms))
    if view.now_ms < end_ms:
        most_ms = SETTLING_RECHECK_MS if view.settling else LAST_RECHECK_MS
        wait_ms = min(max(view.now_ms - message.start_at_ms, FIRST_RECHECK_MS), most_ms)
        agent = leg.agent if leg is not None and message.scope == "all" else ""
        return Choice((Delay(min(wait_ms, end_ms - view.now_ms), agent),), why)
    return ended(_missing(message, leg, sifted, lacking, waits), why)


def _missing(message: Message, leg: Leg | None, sifted: Sifted, lacking: Finish | None, circuits: list[int]) -> Finish:
    """The end of what has waited in vain, which says what was missing."""
    if leg is not None and leg.core:
        return last_answer(leg)
    if lacking is not None:
        return lacking
    if circuits:
        text = "all who could take it fail at the moment"
        return Finish("circuit.open", text, reasons(sifted), retry_after_ms=min(circuits))
    if sifted.refused or (leg is not None and leg.agent):
        return Finish("route.no_candidate", "offered, but nobody fits", reasons(sifted))
    text = f"nobody offers {message.pattern.text[:200]}"
    if message.pattern.kind == "intent":
        text = f"no capability is described as what this asks for: {message.pattern.name[:200]}"
    why_not = reasons(sifted) if sifted.apart else {}
    return Finish("route.not_found", text, {"pattern": message.pattern.text[:200], **why_not})


def _at_once(message: Message, sifted: Sifted, view: View, full: Finish | None, *, is_new: bool) -> Finish | None:
    """The end for which nothing is waited. `full`: how it ends where nobody has room. `is_new`: it has been with nobody yet."""
    if denied(sifted):
        text = f"{message.source or 'the sender'} may not call {message.pattern.text[:200]}"
        return Finish("auth.denied", text, reasons(sifted))
    if not is_new:
        return None
    if looped(sifted) and not view.settling:
        return Finish("loop.detected", "everybody who could take it is among previous_hops", reasons(sifted))
    return full if view.policy.on_full == "reject" else None


def _over_rate(message: Message, leg: Leg | None, sifted: Sifted, view: View) -> Step | None:
    """Where only rate limits stand between a leg and its agents: it waits for the first that may have it, as far as its time allows."""
    able = {name for name, _ in ABLE}
    held = [seen.agent for seen in sifted.refused if seen.filter in able]
    waits = [view.limited[agent] for agent in held if agent in view.limited and agent not in view.unfit]
    if not waits or len(waits) < len(held):
        return None
    wait_ms, last_ms = min(waits), last_look_ms(message)
    if leg is None or not leg.handed:
        last_ms = min(last_ms, message.first_at_ms)
    is_new = leg is None or not (leg.agent or leg.core)
    if view.now_ms + wait_ms < last_ms and not (is_new and view.policy.on_full == "reject"):
        # Somebody else may come, so it looks again meanwhile; its turn is kept by who counts them.
        wait_ms = min(wait_ms, LAST_RECHECK_MS)
        return Delay(wait_ms, leg.agent if leg is not None and message.scope == "all" else "")
    if leg is not None and leg.core:
        return last_answer(leg)
    text = f"everybody is over the rate limit for {wait_ms / 1000:.1f} s"
    return Finish("overloaded", text, reasons(sifted), retry_after_ms=wait_ms)


def last_answer(leg: Leg, *, dead: bool = False) -> Finish:
    """The end with the answer that the leg has; lost bytes leave a leg without any."""
    if leg.core:
        return Finish("", "", last=True, dead=dead)
    return Finish("agent.lost", "it came back without an answer", {"state": leg.state.value}, dead=dead)


def last_look_ms(message: Message, end_at_ms: int | None = None) -> int:
    end_ms = message.total_at_ms if end_at_ms is None else min(end_at_ms, message.total_at_ms)
    return end_ms - min(AHEAD_MS, (end_ms - message.start_at_ms) // 10)


def _full(sifted: Sifted, view: View, agents: Mapping[str, Agent]) -> Finish | None:
    """The end of what is not to wait where `route` has found every inbox full; None where it has not."""
    crowded = set(view.unfit.values()) - {"gone"}
    if not crowded:
        return None
    code, text = "overloaded", "every inbox is full"
    if view.policy.max_inbox == 0:
        if crowded != {"agent"}:
            return None  # a slot is free: what lies there for it is taken in a moment
        code, text = "capacity.exhausted", "every slot is taken"
    elif crowded == {"share"}:
        text = "this sender fills its share of every inbox"
    return Finish(code, text, reasons(sifted), retry_after_ms=room_in_ms(sifted.refused, agents, view))


def _lacking(sifted: Sifted, message: Message, view: View, agents: Mapping[str, Agent]) -> Finish | None:
    """The end of what has waited for room in vain; None where it is not room that is missing."""
    lacking = [seen for seen in sifted.refused if seen.filter == "capacity" and view.unfit.get(seen.agent) != "gone"]
    if not lacking:
        return None
    code, text = "capacity.exhausted", "all who could take it are full"
    if all(lacks_context(seen, view) for seen in lacking):
        code, text = "context.exceeded", f"nobody has {message.context_tokens} tokens of context left"
    waits = [room_in_ms(lacking, agents, view), *_circuits(sifted, message, view)]
    return Finish(code, text, reasons(sifted), retry_after_ms=min(waits))


def _circuits(sifted: Sifted, message: Message, view: View) -> list[int]:
    """For how long the circuits last that have refused somebody."""
    return [view.shut_ms(seen.agent, message.partition) for seen in sifted.refused if seen.filter == "circuit"]


def denied(sifted: Sifted) -> bool:
    """Whether it is the rules that leave nobody: not even when those come back who are missing just now."""
    missing = sum(seen.filter in MISSING for seen in sifted.refused)
    never = {"env", "zone", "accepts", "rules"} | MISSING
    refused = sifted.count("rules") + sifted.barred
    return refused > 0 and missing == sifted.barred and all(seen.filter in never for seen in sifted.refused)


def looped(sifted: Sifted) -> bool:
    """Whether it is the loop filter that left nobody: somebody was refused by it, and nobody got past it."""
    past = {name for name, _ in ABLE}
    return sifted.count("loop") > 0 and not any(seen.filter in past for seen in sifted.refused)
