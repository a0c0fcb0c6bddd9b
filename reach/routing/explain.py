"""Where a message would go now, and why: the decision that a router would make, as a dry run. Nothing is sent, nothing is counted."""

from collections import Counter
from collections.abc import Iterable
from random import Random

import msgspec

from reach.envelope import rules
from reach.envelope.message import Envelope, Scope
from reach.envelope.registration import RoutePolicy
from reach.routing.decide import Chooser, decide
from reach.routing.index import CapabilityIndex
from reach.routing.intents import Ranked
from reach.routing.message import message_of
from reach.routing.pattern import resolve_bare
from reach.routing.steps import Choice, Delay, Deliver, Finish, Hold, Observe, Why
from reach.routing.strategies import Memory, strategy_for


class Candidate(msgspec.Struct, frozen=True):
    """An agent that answers the pattern.

    Attributes:
        agent: Its id.
        filter: The filter that refused it; "" = it fits.
        reason: Why, in words.
        score: What it weighed in the draw; None: nobody was weighed.
        share: How often it was chosen, of all draws: 0 to 1.
        chosen: It would get the message.
    """

    agent: str
    filter: str = ""
    reason: str = ""
    score: float | None = None
    share: float = 0.0
    chosen: bool = False


class Explanation(msgspec.Struct, frozen=True, kw_only=True):
    """What a router would do with a message now.

    Attributes:
        pattern: The target; a bare name as it was resolved.
        scope: One of those who fit, or all.
        partition: In which the message would lie.
        policy: What the env says of the pattern; the default where it says nothing.
        has_policy: It says something.
        strategy: Which one chooses.
        chosen: Who would get it, in the first draw; several with scope all; nobody where it waits or ends.
        tier: The tier that it needs, where its sender or the policy says so.
        tier_why: Why that one.
        via: The fallback that it would go by; "" = it answers the pattern itself.
        delayed: With scope all: whose leg would wait, also for the stages before its own.
        observers: With stages: who is in none, and would only be shown the message.
        wait_ms: Where it waits: after so long it is looked at again.
        code: Where it would end at once: with this code; "" = it would not.
        message: The same, in words.
        retry_after_ms: When to come back, where that is known.
        candidates: Those who answer the pattern, at most 20: the chosen ones first, then those who fit, then those who were refused.
        counts: How many matched, how many fit, and how many each filter refused.
        means: Of an intent: the capabilities that come nearest, best first.
        draws: How often it was drawn.
    """

    pattern: str
    scope: Scope
    partition: int
    policy: RoutePolicy
    has_policy: bool
    strategy: str
    chosen: tuple[str, ...] = ()
    tier: str | None = None
    tier_why: str = ""
    via: str = ""
    delayed: tuple[str, ...] = ()
    observers: tuple[str, ...] = ()
    wait_ms: int = 0
    code: str = ""
    message: str = ""
    retry_after_ms: int | None = None
    candidates: tuple[Candidate, ...] = ()
    counts: dict[str, int] = {}
    means: tuple[Ranked, ...] = ()
    draws: int = 1


class Rehearsal(Memory):
    """A router's memory, but nothing is sent: draws that follow one another all meet the agents as they are."""

    def note_sent(self, agent_id: str, now_ms: int) -> None:
        """Nobody has become busier."""


def resolved(envelope: Envelope, index: CapabilityIndex) -> Envelope:
    """The same envelope, with the patterns that its bare names mean, also those of its stages.

    Raises:
        EnvelopeError: `target.bad_pattern`.
    """
    pattern = resolve_bare(envelope.target.pattern, index).text
    target = msgspec.structs.replace(envelope.target, pattern=pattern)
    stages = envelope.process_order
    if stages is not None:
        stages = tuple(tuple(resolve_bare(name, index).text for name in stage) for stage in stages)
    return msgspec.structs.replace(envelope, target=target, process_order=stages)


def explain(
    envelope: Envelope,
    index: CapabilityIndex,
    *,
    env: str,
    partition: int,
    now_ms: int,
    rng: Random,
    draws: int = 1,
    replies_to: str = "",
    was_asked: bool = False,
    met: Iterable[tuple[str, str, int]] = (),
) -> Explanation:
    """Decide about a message that comes for the first time, so many times.

    Args:
        envelope: As it would be sent; its target may be a bare name. Its `not_before` is not looked at: it is explained as of now.
        index: Who is there, as the router would see it.
        env: The environment.
        partition: In which the message would lie.
        now_ms: The moment, by the clock of the backend.
        rng: The only source of chance.
        draws: How often to draw; at least 1.
        replies_to: The sender of the message that it answers.
        was_asked: Its own sender has had that message.
        met: Whom its sender has met, for `fresh_eyes`: conversation ("" = another one), agent, when.

    Raises:
        EnvelopeError: It breaks a rule that its sender would have been told at once.
    """
    envelope = resolved(envelope, index)
    rules.check_fields(envelope)
    pattern, scope = envelope.target.pattern, envelope.target.scope
    policy = index.policy(pattern)
    found = Explanation(
        pattern=pattern,
        scope=scope,
        partition=partition,
        policy=policy,
        has_policy=index.has_policy(pattern),
        strategy=strategy_for(scope, policy.strategy),
        draws=draws,
    )
    if not index.has_type(envelope.type):
        text = f"nobody has registered the type {envelope.type}"
        return msgspec.structs.replace(found, code="type.unregistered", message=text)
    limits = rules.limits_of(envelope, policy=policy.timeouts)
    message = message_of(
        envelope,
        env=env,
        partition=partition,
        start_at_ms=now_ms,
        first_at_ms=now_ms + limits.ttl_ms,
        total_at_ms=now_ms + limits.total_ms,
        network_ms=limits.network_ms,
        replies_to=replies_to,
        was_asked=was_asked,
        tier_by=policy.tier_by,
    )
    memory = Rehearsal()
    for conversation, agent_id, at_ms in met:
        memory.meetings.note(rules.sender_of(envelope.source), conversation, agent_id, at_ms)
    by = Chooser(index=index, rng=rng, memory=memory, whole=True)
    choices = [decide(message, None, by, now_ms) for _ in range(draws)]
    drawn = Counter(agent for choice in choices for agent in _goes_to(choice))
    first = choices[0]
    end = next((step for step in first.steps if isinstance(step, Finish)), None)
    waits = [step for step in first.steps if isinstance(step, Delay)]
    return msgspec.structs.replace(
        found,
        chosen=_goes_to(first),
        tier=message.tier,
        tier_why=message.tier_why,
        via=first.why.via,
        delayed=tuple(step.agent for step in first.steps if isinstance(step, Delay | Hold) and step.agent),
        observers=tuple(step.agent for step in first.steps if isinstance(step, Observe)),
        wait_ms=min((step.wait_ms for step in waits), default=0),
        code=end.code if end is not None else "",
        message=end.message if end is not None else "",
        retry_after_ms=end.retry_after_ms if end is not None else None,
        candidates=_candidates(first.why, drawn, _goes_to(first), draws),
        counts=first.why.counts,
        means=tuple(index.ranked(message.pattern.name)) if message.pattern.kind == "intent" else (),
    )


def _goes_to(choice: Choice) -> tuple[str, ...]:
    return tuple(step.agent for step in choice.steps if isinstance(step, Deliver))


def _candidates(why: Why, drawn: Counter[str], chosen: tuple[str, ...], draws: int) -> tuple[Candidate, ...]:
    return tuple(
        Candidate(
            agent=seen.agent,
            filter=seen.filter,
            reason=seen.reason,
            score=seen.score,
            share=drawn[seen.agent] / draws,
            chosen=seen.agent in chosen,
        )
        for seen in why.candidates
    )
