"""THE decision: what happens to a leg now. Plain code, no I/O; whoever calls it carries the answer out.

Asked for a first send (no leg yet), and for every `again`: a leg that came back, one whose waiting is over, one that was held and is the
first in its line now, one that nobody has picked up.
"""

from collections.abc import Callable, Container, Mapping, Sequence
from random import Random

import msgspec

from reach.envelope.ledger import Leg, LegState
from reach.routing.agents import Agent
from reach.routing.drawing import Drawn, Hat
from reach.routing.fallback import joined, near_total, stood_in, ways
from reach.routing.filters import ABLE, MEANT, Sifted, Unfit, View, sift
from reach.routing.index import CapabilityIndex
from reach.routing.message import Message
from reach.routing.nobody import FIRST_RECHECK_MS, LAST_RECHECK_MS, denied, last_answer, last_look_ms, looped, nobody
from reach.routing.pattern import Term
from reach.routing.reasons import ended, why_of, with_tier
from reach.routing.staging import staged
from reach.routing.steps import (
    AT_ONCE,
    Choice,
    Comeback,
    Delay,
    Deliver,
    Finish,
    Move,
    Stay,
    Step,
    Why,
)
from reach.routing.strategies import STRATEGIES, WEIGHINGS, Memory, Picked, strategy_for

MAX_FANOUT = 1_000
#: However much `max_fanout` in meta allows: one step writes all legs of a message, and holds up everybody while it does.
MOST_FANOUT = 10_000
MAX_MOVES = 2
NOT_ASKED = Sifted([], [])


class Chooser(msgspec.Struct, frozen=True, kw_only=True):
    """What decisions are made with: who is there, what one router remembers, and its only source of chance.

    `whole`: ask everybody, however many they are, so that all of them can be told; a choice among thousands else asks a few of them.
    """

    index: CapabilityIndex
    rng: Random
    memory: Memory
    whole: bool = False


def decide(
    message: Message,
    leg: Leg | None,
    by: Chooser,
    now_ms: int,
    *,
    retry: Comeback = AT_ONCE,
    unfit: Mapping[str, Unfit] | None = None,
    limited: Mapping[str, int] | None = None,
) -> Choice:
    """Choose the next step of a leg, or of all legs of a message that comes for the first time (`leg` None).

    Args:
        message: What is to be decided about.
        leg: As the ledger has it; the answer is made for its state and attempt.
        by: Index, memory and chance.
        now_ms: The moment, by the clock of the backend.
        retry: What the rules of retrying say to a leg that came back; asked for by nobody else.
        unfit: Agents whose inbox `route` has just found full or gone.
        limited: Agents over their rate limit, and in how many ms they may have this message.
    """
    since_ms = by.index.alive_since_ms(now_ms)
    tried = frozenset(leg.tried) if leg is not None else frozenset[str]()
    policy = by.index.policy(message.pattern.text)
    view = View(
        now_ms=now_ms,
        alive_since_ms=since_ms,
        settling_until_ms=by.index.settling_until_ms,
        policy=policy,
        tried=tried,
        answered=_asker(leg, elsewhere=retry.elsewhere),
        room=leg.woken_by.partition(":")[0] if leg is not None else "",
        unfit=unfit or {},
        limited=limited or {},
        circuits=by.index.circuits,
        caller=by.index.caller(message.source, message.name),
        readers=by.index.schemas.readers(message.schema),
    )
    if leg is not None and leg.state is LegState.QUEUED:
        return _move(message, leg, by, view)
    if leg is not None and leg.state not in {LegState.RETURNED, LegState.WAITING, LegState.HELD}:
        return Choice((Stay(),))
    fixed = _without_looking(message, leg, now_ms, retry)
    if message.scope == "all" and leg is None and not isinstance(fixed, Finish):
        choice = _fan_out(message, by, view)
        choice = choice if fixed is None else _put_off(choice, fixed)
        if not message.stages or not isinstance(choice.steps[0], Deliver | Delay) or not choice.steps[0].agent:
            return choice
        return staged(choice, message, by.index, goes_on=policy.on_stage_failed == "continue")
    if fixed is not None:
        # Once: who stands in may ask for more time than there is as well.
        is_late = retry.late and leg is not None and not leg.via and isinstance(fixed, Finish)
        barred = view.tried | {leg.agent} if leg is not None else view.tried
        instead, seen = _fall_back(message, by, view, barred) if is_late else (None, NOT_ASKED)
        return instead or Choice((fixed,), why_of("", seen) if is_late else Why())
    if message.scope == "all" and leg is not None and leg.agent:
        return _same(message, leg, by, view)
    if message.stages:
        return _too_late(message, leg, by, view)
    choice = _one(message, leg, by, view, elsewhere=retry.elsewhere)
    return with_tier(choice, message) if message.tier_why else choice


def _without_looking(message: Message, leg: Leg | None, now_ms: int, retry: Comeback) -> Finish | Delay | None:
    """What is settled before anybody is looked for: the end of retrying or of time, and the waits. None: look for somebody."""
    if leg is not None and leg.state is LegState.RETURNED:
        if retry.ends:
            return last_answer(leg, dead=retry.dead)
        if retry.wait_ms > 0:
            return Delay(retry.wait_ms, leg.agent if message.scope == "all" else "")
    state = leg.state if leg is not None else LegState.NEW
    if now_ms >= message.total_at_ms:  # `due` ends most of them first
        short = leg is None or (leg.state is LegState.WAITING and not leg.agent)
        short = short and message.total_at_ms - message.start_at_ms <= message.network_ms
        text = "nobody was found within total_ms, which is no longer than network_ms" if short else "total_ms is over"
        return Finish("timeout.total", text, {"state": state.value})
    if now_ms >= message.first_at_ms and not (leg is not None and leg.handed):
        return Finish("ttl.expired", "not handed over within ttl_ms", {"state": state.value})
    return Delay(message.start_at_ms - now_ms) if now_ms < message.start_at_ms else None


def _one(message: Message, leg: Leg | None, by: Chooser, view: View, *, elsewhere: bool) -> Choice:
    """One of those who fit."""
    best = leg.best if leg is not None else None
    barred = view.tried if elsewhere else frozenset([best.agent] if best is not None else [])
    is_near = best is None and near_total(message, leg, view.now_ms) and not view.answered
    drawn = _drawn(message, by, view, barred) if not is_near else None
    if drawn is not None:
        return _choice([Deliver(drawn.agent.agent_id)], _terms(message, by), [drawn.agent], drawn.why)
    sifted = sift(by.index.match(message.pattern), message, view)
    fits = [agent for agent in sifted.fits if agent.agent_id not in barred]
    is_awaited = view.settling and not sifted.refused  # somebody may be about to come back
    if is_near or not (fits or best is not None or is_awaited or looped(sifted) or denied(sifted)):
        # Near total only where it has not failed already: else its own agents are asked once more.
        instead, sifted = _fall_back(message, by, view, view.tried if is_near else barred, sifted)
        if instead is not None:
            return instead
    if not fits:
        if leg is not None and (elsewhere or best is not None):
            return ended(last_answer(leg), why_of("", sifted))
        return nobody(message, leg, sifted, view, by.index.agents)
    strategy = strategy_for("one", view.policy.strategy)
    picked = STRATEGIES[strategy](fits, message, view, by.memory, by.rng)
    agent_id = picked.chosen[0].agent_id
    return _choice([Deliver(agent_id)], _terms(message, by), picked.chosen, why_of(strategy, sifted, fits, picked))


def _drawn(
    message: Message, by: Chooser, view: View, barred: Container[str], also: Callable[[Agent], bool] = lambda _: True
) -> Drawn | None:
    """Where many answer, one that fits, without asking all of them. None: all are to be asked."""
    strategy = strategy_for("one", view.policy.strategy)
    weighing = WEIGHINGS.get(strategy)
    if weighing is None or by.whole or view.answered or view.room:
        return None
    pool = by.index.pool(message.pattern, strategy, weighing)
    return None if pool is None else Hat(pool, message, view, barred, also).draw(by.memory, by.rng)


def _fall_back(
    message: Message, by: Chooser, view: View, barred: frozenset[str], seen: Sifted = NOT_ASKED
) -> tuple[Choice | None, Sifted]:
    """One of those who stand in when nobody fits, or None; and who was refused, with those that have been `seen` before."""
    for asked, there in ways(message, view, by.index):
        sifted = sift(by.index.match(asked.pattern), asked, there)
        fits = [agent for agent in sifted.fits if agent.agent_id not in barred]
        text = asked.pattern.text
        told = stood_in(seen, sifted, text)
        if fits:
            strategy = strategy_for("one", there.policy.strategy)
            picked = STRATEGIES[strategy](fits, asked, there, by.memory, by.rng)
            why = why_of(strategy, told, fits, picked, via=text)
            step = Deliver(picked.chosen[0].agent_id, via=text)
            return _choice([step], _terms(asked, by), picked.chosen, why), told
        seen = msgspec.structs.replace(told, fits=seen.fits, told=seen.told)
    return None, seen


def _asker(leg: Leg | None, *, elsewhere: bool) -> str:
    """Whose question was answered last, unless the leg is barred from there: then the answers draw it nowhere."""
    agent = leg.answers[-1].agent if leg is not None and leg.answers else ""
    if leg is None or (elsewhere and agent in leg.tried) or (leg.best is not None and leg.best.agent == agent):
        return ""
    return agent


def _fan_out(message: Message, by: Chooser, view: View) -> Choice:
    """A leg for everybody who is meant; who cannot just now has a leg that waits."""
    sifted = sift(by.index.match(message.pattern), message, view, MEANT, preferences=())
    if not sifted.fits:
        return nobody(message, None, sifted, view, by.index.agents)
    most = min(by.index.setting("max_fanout", MAX_FANOUT), MOST_FANOUT)
    if len(sifted.fits) > most:
        text = f"{len(sifted.fits)} agents match, at most {most} may"
        return ended(
            Finish("target.too_many", text, {"matched": len(sifted.fits), "max_fanout": most}), why_of("", sifted)
        )
    strategy = strategy_for("all", view.policy.strategy)
    picked = STRATEGIES[strategy](sifted.fits, message, view, by.memory, by.rng)
    chosen = picked.chosen
    longest_ms = min(max(last_look_ms(message) - view.now_ms, FIRST_RECHECK_MS), LAST_RECHECK_MS)
    able = {agent.agent_id for agent in sift(chosen, message, view, ABLE, preferences=()).fits}
    steps = [
        Deliver(agent.agent_id)
        if agent.agent_id in able
        else Delay(min(view.limited.get(agent.agent_id, FIRST_RECHECK_MS), longest_ms), agent.agent_id)
        for agent in chosen
    ]
    return _choice(steps, _terms(message, by), chosen, why_of(strategy, sifted, sifted.fits, picked))


def _put_off(choice: Choice, until: Delay) -> Choice:
    """A broadcast that is not to start yet has its legs from the first: one leg that waited for all would go to a single agent."""
    steps = tuple(
        Delay(until.wait_ms, step.agent) if isinstance(step, Deliver | Delay) else step for step in choice.steps
    )
    return msgspec.structs.replace(choice, steps=steps)


def _too_late(message: Message, leg: Leg | None, by: Chooser, view: View) -> Choice:
    """Legs are fixed at the fan-out, and nobody was there: one agent alone would be no order. A new round has its own."""
    sifted = sift(by.index.match(message.pattern), message, view, MEANT, preferences=())
    if not sifted.fits:
        return nobody(message, leg, sifted, view, by.index.agents)
    text = "who it is for has come only now, and its stages were fixed before: send it again"
    return ended(Finish("route.no_candidate", text, {"state": leg.state.value if leg is not None else "new"}))


def _same(message: Message, leg: Leg, by: Chooser, view: View) -> Choice:
    """The leg of a broadcast: its own agent or nobody."""
    agent = by.index.agents.get(leg.agent)
    if agent is None and view.settling:
        return nobody(message, leg, sift((), message, view), view, by.index.agents)
    if agent is None:
        text = f"{leg.agent} was removed"
        return ended(Finish("agent.lost", text, {"state": leg.state.value}))
    sifted = sift((agent,), message, view)
    if not sifted.fits:
        return nobody(message, leg, sifted, view, by.index.agents)
    return _choice(
        [Deliver(agent.agent_id)], _terms(message, by), [agent], why_of("direct", sifted, sifted.fits, Picked([agent]))
    )


def _move(message: Message, leg: Leg, by: Chooser, view: View) -> Choice:
    """Nobody has picked it up for network_ms: to another agent, but only where that helps, so that a backlog does not bounce.

    From an inbox that nobody reads it may always go: what bounds those moves is that no agent is chosen that it has left already.
    """
    if message.scope == "all" or view.now_ms >= message.total_at_ms:
        return Choice((Stay(),))
    holder = by.index.agents.get(leg.agent)
    shut = bool(view.shut_ms(leg.agent, message.partition))  # nothing that lies there is started any more
    is_read = not shut and holder is not None and holder.state(view.alive_since_ms) in {"ready", "busy"}
    if is_read and leg.moves >= MAX_MOVES:
        return Choice((Stay(),))
    best = leg.best.agent if leg.best is not None else ""
    left, seen = {leg.agent, best, *leg.left}, NOT_ASKED
    # Who is busy has a backlog, and only as much of it goes as the other can begin; who has a free slot and picks nothing up is dead.
    is_busy = is_read and holder is not None and not holder.free_slots(view.alive_since_ms)

    def move_to(agent: Agent, via: str = "") -> Move:
        room = agent.can_begin(view.alive_since_ms, message.network_ms) if is_busy else 0
        return Move(agent.agent_id, free=not is_read, room=room, via=via)

    def may_begin(agent: Agent) -> bool:
        return not is_read or agent.free_slots(view.alive_since_ms) > 0

    drawn = _drawn(message, by, view, left, may_begin)
    if drawn is not None:
        return _choice([move_to(drawn.agent)], _terms(message, by), [drawn.agent], drawn.why)
    # What stands in for its own agents is asked where nobody reads it, or when its time is nearly over.
    may_fall_back = leg.best is None and (not is_read or near_total(message, leg, view.now_ms))
    for asked, there in ((message, view), *(ways(message, view, by.index) if may_fall_back else ())):
        sifted = sift((agent for agent in by.index.match(asked.pattern) if agent.agent_id not in left), asked, there)
        fits = [agent for agent in sifted.fits if may_begin(agent)]
        seen = joined(seen, sifted)
        if fits:
            break
    else:
        return Choice((Stay(),), why_of("", seen))
    via = asked.pattern.text if asked is not message else ""
    strategy = strategy_for("one", there.policy.strategy)
    picked = STRATEGIES[strategy](fits, asked, there, by.memory, by.rng)
    why = why_of(strategy, seen, fits, picked, via=via)
    return _choice([move_to(picked.chosen[0], via)], _terms(asked, by), picked.chosen, why)


def _terms(message: Message, by: Chooser) -> tuple[Term, ...]:
    return by.index.terms_of(message.pattern)


def _choice(steps: Sequence[Step], terms: tuple[Term, ...], chosen: Sequence[Agent], why: Why) -> Choice:
    return Choice(tuple(steps), why, max(agent.longest_ms(terms) for agent in chosen))
