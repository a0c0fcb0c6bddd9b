"""Who fits. Each filter looks at one agent and answers None (yes) or the reason why not; the first no counts.

A new filter is one function and one line in FILTERS, in the order in which it is to be asked (PROTOCOL, section 6).
"""

from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import Literal

import msgspec

from reach.envelope.circuit import OpenCircuit
from reach.envelope.registration import RoutePolicy
from reach.routing.access import Caller
from reach.routing.agents import SUSPECT_MS, Agent
from reach.routing.message import Message
from reach.routing.schemas import NOBODY, has_schema, in_canary, which_reads
from reach.routing.steps import Seen

Unfit = Literal["full", "share", "agent", "gone"]
_WORDS: dict[Unfit, str] = {
    "full": "its inbox is full",
    "share": "this sender fills its share of the inbox",
    "agent": "it has as many messages as one agent may",
    "gone": "its inbox is gone",
}


class View(msgspec.Struct, frozen=True, kw_only=True):
    """What is known at the moment of a decision beside the message and the agents.

    Attributes:
        alive_since_ms: Who has not beaten since then is suspect.
        tried: The agents that this leg has already been with.
        answered: The agent whose question was answered last in this leg; "" = it has no answers, or is not to go there.
        room: Where room has come, which ended the wait of this leg; "" = it has not waited for any.
        unfit: Agents whose inbox `route` has just found full or gone.
        limited: Agents over their rate limit, and in how many ms they may have this message.
        settling_until_ms: Until then agents are coming back after the registry was lost; 0 = nothing was lost.
        circuits: Whose circuit is not closed: agent_id -> partition -> what is known of it.
        caller: What its source may call; None = everything.
        readers: The other schemas that read the message's.
    """

    now_ms: int
    alive_since_ms: int
    settling_until_ms: int = 0
    policy: RoutePolicy = RoutePolicy()
    tried: frozenset[str] = frozenset()
    answered: str = ""
    room: str = ""
    unfit: Mapping[str, Unfit] = {}
    limited: Mapping[str, int] = {}
    circuits: Mapping[str, Mapping[int, OpenCircuit]] = {}
    caller: Caller | None = None
    readers: frozenset[str] = NOBODY

    def shut_ms(self, agent_id: str, partition: int) -> int:
        """For how long the circuit of an agent keeps everything from it, as far as is known here; 0: it keeps nothing."""
        known = self.circuits.get(agent_id, {}).get(partition)
        return max(known.until_ms - self.now_ms, 0) if known is not None else 0

    @property
    def settling(self) -> bool:
        """Whether somebody who is missing may be about to come back."""
        return self.now_ms < self.settling_until_ms


Filter = Callable[[Agent, Message, View], str | None]
Preference = Callable[[Agent, Message, View], str | None]


class Sifted(msgspec.Struct, frozen=True):
    """Who fits and who does not, in the order in which they were given.

    `told`: what else is to be said of one who fits. `barred`: how many of those that are missing just now the rules would refuse as well.
    `apart`: who may not stand in for the others. That is told, and is no reason to end as denied or as a loop.
    """

    fits: list[Agent]
    refused: list[Seen]
    barred: int = 0
    told: dict[str, str] = {}
    apart: tuple[Seen, ...] = ()

    def count(self, name: str) -> int:
        """How many this filter refused."""
        return sum(seen.filter == name for seen in self.refused)


# ---------------------------------------------------------------- the filters
def env(agent: Agent, message: Message, _: View) -> str | None:
    """Declared for this environment."""
    return None if agent.declared.env == message.env else f"declared for env {agent.declared.env}"


def zone(agent: Agent, message: Message, view: View) -> str | None:
    """In the sender's zone, where the policy makes that a must."""
    if view.policy.zone != "hard" or message.zone is None or agent.zone == message.zone:
        return None
    return f"in zone {agent.zone or 'none'}, the sender in {message.zone}"


def alive(agent: Agent, _: Message, view: View) -> str | None:
    """At least one instance has beaten within three beats."""
    last_ms = agent.last_beat_ms()
    if last_ms and last_ms >= view.alive_since_ms:
        return None
    if not last_ms:
        return "no instance has beaten yet, or none of its beats can be read"
    return f"silent for {(view.now_ms - last_ms) / 1000:.1f} s, suspect after {SUSPECT_MS // 1000}"


def partition(agent: Agent, message: Message, view: View) -> str | None:
    """Reads the partition that the message lies in."""
    reads = agent.partitions(view.alive_since_ms)
    return None if message.partition < reads else f"reads {reads} partitions, this is number {message.partition}"


def accepts(agent: Agent, message: Message, view: View) -> str | None:
    """Takes messages of this type, and of this schema where both say which: a body without a name is for its reader to judge."""
    if message.type not in agent.accepts:
        return f"does not accept the type {message.type}"
    schemas = agent.accepts[message.type]
    if schemas is None or message.schema is None or message.schema in schemas or not schemas.isdisjoint(view.readers):
        return None
    return f"does not accept the schema {message.schema}"


def rules(agent: Agent, message: Message, view: View) -> str | None:
    """May be called by this source. Whoever had a message may always answer its sender: that is no call of its own."""
    if view.caller is None:
        return None
    reason = view.caller.refusal(agent, message.pattern, message.type)
    return None if reason is None or (message.was_asked and _is_asker(agent.agent_id, message)) else reason


def loop(agent: Agent, message: Message, _: View) -> str | None:
    """Has not had the message's forerunners, unless this is the answer to what it sent itself."""
    if agent.agent_id not in message.hops or _is_asker(agent.agent_id, message):
        return None
    return "is among previous_hops"


def circuit(agent: Agent, message: Message, view: View) -> str | None:
    """Has not failed again and again. Near its end `route` judges by itself, and lets one message pass for a probe."""
    shut_ms = view.shut_ms(agent.agent_id, message.partition)
    if not shut_ms:
        return None
    return f"{view.circuits[agent.agent_id][message.partition].why}: left alone for another {shut_ms / 1000:.1f} s"


def capacity(agent: Agent, message: Message, view: View) -> str | None:
    """Has room, as far as the last step has told; in its inbox, its context, its rate limit."""
    found = view.unfit.get(agent.agent_id)
    if found == "agent" and view.policy.max_inbox == 0:
        return f"all its {agent.history(view.alive_since_ms).slots} slots are taken"
    if found in {"full", "share"} and view.policy.max_inbox == 0:
        return "what it was handed last is not taken yet"
    if found:
        return _WORDS[found]
    left = agent.context_left(view.alive_since_ms) if message.context_tokens else None
    if left is not None and left < message.context_tokens:
        return f"has {left} tokens of context left, {message.context_tokens} are needed"
    wait_ms = view.limited.get(agent.agent_id)
    return f"its rate limit is used up for {wait_ms / 1000:.1f} s" if wait_ms is not None else None


def ready(agent: Agent, _: Message, view: View) -> str | None:
    """At least one live instance takes work."""
    state = agent.state(view.alive_since_ms)
    if state in {"ready", "busy"}:
        return None
    reason = agent.reason(view.alive_since_ms)
    return f"{state}: {reason}" if reason else state


#: In the order of asking. Up to and with `loop` they say whether an agent is meant at all; those behind it only whether it can now.
MEANT: tuple[tuple[str, Filter], ...] = (
    ("env", env),
    ("zone", zone),
    ("alive", alive),
    ("partition", partition),
    ("accepts", accepts),
    ("rules", rules),
    ("loop", loop),
)
ABLE: tuple[tuple[str, Filter], ...] = (
    ("circuit", circuit),
    ("capacity", capacity),
    ("ready", ready),
)
FILTERS = MEANT + ABLE
#: Whoever these refuse may fit in a moment.
MISSING = frozenset({"alive", "partition"})


# ---------------------------------------------------------------- preferences: they refuse only when somebody else is left
def asker(agent: Agent, _: Message, view: View) -> str | None:
    """Has asked what was answered: another one may ask other things, and somebody would have to answer anew."""
    return f"the answers are to {view.answered}" if view.answered and agent.agent_id != view.answered else None


def fresh(agent: Agent, _: Message, view: View) -> str | None:
    """Has not had this leg before."""
    return "has already tried it" if agent.agent_id in view.tried else None


def canary(agent: Agent, message: Message, view: View) -> str | None:
    """On the side of the canary that this conversation is on."""
    rule = view.policy.canary
    if rule is None or has_schema(agent, message, rule.schema) == in_canary(rule, message):
        return None
    if in_canary(rule, message):
        return f"the canary: this conversation goes to {rule.schema}, as {rule.share:.4g} of them do"
    return f"the canary: this conversation is not of the {rule.share:.4g} that go to {rule.schema}"


def exact(agent: Agent, message: Message, view: View) -> str | None:
    """Takes the message's own schema, and not only one that reads it."""
    by = which_reads(agent, message, view.readers)
    return f"accepts {by}, which reads {message.schema}; others accept {message.schema} itself" if by else None


def near(agent: Agent, message: Message, view: View) -> str | None:
    """In the sender's zone, where the policy prefers that."""
    if view.policy.zone != "preferred" or message.zone is None or agent.zone == message.zone:
        return None
    return f"in zone {agent.zone or 'none'}, and others are in {message.zone}"


def tier(agent: Agent, message: Message, view: View) -> str | None:
    """Of the tier that the message needs. `tiered` sees to that by itself: there tiers stand in for one another in their order."""
    if message.tier is None or view.policy.strategy == "tiered" or agent.tier == message.tier:
        return None
    return f"is of {f'tier {agent.tier}' if agent.tier else 'no tier'}, it needs {message.tier}"


def roomy(agent: Agent, _: Message, view: View) -> str | None:
    """Has told the leg of room. The others had none, as far as it has heard."""
    return f"it has waited, and room has come at {view.room}" if view.room and agent.agent_id != view.room else None


PREFERENCES: tuple[tuple[str, Preference], ...] = (
    ("answered", asker),
    ("tier", tier),
    ("tried", fresh),
    ("canary", canary),
    ("schema", exact),
    ("zone", near),
    ("room", roomy),
)


#: What these say of an agent stays the same until one of its instances beats, goes or falls silent: a yes is kept with the agent.
_STANDING = frozenset[Filter]({env, alive, partition, ready})
Named = tuple[tuple[str, Filter], ...]


@cache
def _working(filters: Named, idle: frozenset[Filter]) -> tuple[Named, Named]:
    working = tuple(pair for pair in filters if pair[1] not in idle)
    return working, tuple(pair for pair in working if pair[1] not in _STANDING)


@cache
def _idle(
    zoned: str | None,
    *,
    ruled: bool,
    hops: bool,
    circuits: bool,
    answered: bool,
    tried: bool,
    canaried: bool,
    read: bool,
    told: bool,
) -> frozenset[Filter]:
    """Filters and preferences that can refuse nobody just now, whoever it is."""
    idle: dict[Filter, bool] = {
        zone: zoned != "hard",
        near: zoned != "preferred",
        rules: not ruled,
        loop: not hops,
        circuit: not circuits,
        asker: not answered,
        fresh: not tried,
        canary: not canaried,
        exact: not read,
        roomy: not told,
    }
    return frozenset(one for one, rests in idle.items() if rests)


def working(filters: Named, message: Message, view: View) -> tuple[Named, Named]:
    """Those filters, or preferences, that may refuse somebody, and of these the ones whose yes is for this message only."""
    idle = _idle(
        view.policy.zone if message.zone is not None else None,
        ruled=view.caller is not None,
        hops=bool(message.hops),
        circuits=bool(view.circuits),
        answered=bool(view.answered),
        tried=bool(view.tried),
        canaried=view.policy.canary is not None,
        read=bool(view.readers),
        told=bool(view.room),
    )
    return _working(filters, idle)


class Sieve:
    """The filters for one message, as far as they can say anything about it."""

    def __init__(self, message: Message, view: View, filters: Named = FILTERS) -> None:
        self._message, self._view = message, view
        self._all, self._rest = working(filters, message, view)
        self._keeps = len(self._all) - len(self._rest) == len(_STANDING)

    def refusal(self, agent: Agent) -> tuple[str, str] | None:
        """The first filter that says no, and its reason; None: it fits."""
        message, view = self._message, self._view
        known = agent.has_passed(message.env, message.partition, view.alive_since_ms)
        for name, asked in self._rest if known else self._all:
            reason = asked(agent, message, view)
            if reason is not None:
                return name, reason
        if self._keeps and not known:
            agent.note_passed(message.env, message.partition, view.alive_since_ms)
        return None


def sift(
    agents: Iterable[Agent],
    message: Message,
    view: View,
    filters: Named = FILTERS,
    preferences: Named = PREFERENCES,
) -> Sifted:
    """Ask every filter of every agent until one says no; then narrow down by the preferences, but never to nobody."""
    fits: list[Agent] = []
    refused: list[Seen] = []
    barred = 0
    sieve = Sieve(message, view, filters)
    for agent in agents:
        refusal = sieve.refusal(agent)
        if refusal is None:
            fits.append(agent)
        else:
            refused.append(Seen(agent.agent_id, *refusal))
            barred += refusal[0] in MISSING and rules(agent, message, view) is not None
    for name, preferred in working(preferences, message, view)[0]:
        if len(fits) > 1:
            said = [(agent, preferred(agent, message, view)) for agent in fits]
            if any(reason is None for _, reason in said):
                fits = [agent for agent, reason in said if reason is None]
                refused += [Seen(agent.agent_id, name, reason) for agent, reason in said if reason is not None]
    found = {agent.agent_id: which_reads(agent, message, view.readers) for agent in fits} if view.readers else {}
    told = {agent_id: f"accepts {by}, which reads {message.schema}" for agent_id, by in found.items() if by}
    return Sifted(fits, refused, barred, told)


def _is_asker(agent_id: str, message: Message) -> bool:
    """Whether it is this agent whose message is answered: by its id, or as a replica that sends under a name (`refund-01` of `refund`).

    A replica that has asked is one of the last two on the path, who asked and who was asked: `refund-audit` further up is somebody else.
    """
    sender = message.replies_to
    if not sender or agent_id == sender:
        return bool(sender)
    return agent_id in message.last_hops and agent_id.startswith((f"{sender}-", f"{sender}.", f"{sender}_"))
