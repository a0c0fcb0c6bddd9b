"""The capability index: who answers a pattern. Fed with a snapshot, then with changes and beats; asked by the router for every message.

A lookup costs as much as its answer is long, however many other agents there are. All moments by the clock of the backend.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from typing import TypeVar

from reach import ids
from reach.envelope import records
from reach.envelope.circuit import OpenCircuit, decode_circuit
from reach.envelope.families import decode_family
from reach.envelope.policy_digest import NO_POLICY, policy_digest
from reach.envelope.registration import RoutePolicy, StoredRegistration
from reach.errors import RecordError
from reach.routing.access import EMPTY, Access, Caller
from reach.routing.agents import SUSPECT_MS, Agent, Instance
from reach.routing.asked import Asked
from reach.routing.intents import Intents, Nearness, Ranked, said_of
from reach.routing.offers import NOBODY, Offers
from reach.routing.offline import Offline
from reach.routing.pattern import Pattern, Term
from reach.routing.pools import SMALL, Pool, Pools
from reach.routing.schemas import SchemaSets, TypeNames
from reach.routing.strategies.weighing import Weighing

DEFAULT_POLICY = RoutePolicy()
NO_CIRCUITS: Mapping[str, bytes] = {}
NO_RULES: Mapping[str, bytes] = {}
#: Answers are remembered for so many patterns; a sender who makes up ever new ones must not fill the memory.
MAX_REMEMBERED = 4_096
#: An instance that has been silent for so long is forgotten; by then the reaper has told the world.
FORGET_MS = 60_000

T = TypeVar("T")


class CapabilityIndex:
    """Who is registered, by agent_id, capability and group; with policies, types and settings of the env.

    Records that cannot be read (written by hand, or by something that is no registrar) are left out and counted in `unreadable`.
    """

    def __init__(
        self, complain: Callable[[str, str], None] = lambda _name, _problem: None, model: Nearness | None = None
    ) -> None:
        """`complain` hears of each record that cannot be read: whose it is (agent, agent/instance or pattern), and why.

        `model`: ranks free texts by meaning, beside their words.
        """
        self._complain = complain
        self.agents: dict[str, Agent] = {}
        self.types = TypeNames()
        self.schemas = SchemaSets()
        self.meta: dict[str, str] = {}
        self.unreadable = 0
        #: While this is over 0, whoever has beaten since then counts as alive, however late it is: nobody may become suspect.
        self.floor_ms = 0
        #: Until then agents come back after the registry was lost, and nothing ends for want of one who is missing.
        self.settling_until_ms = 0
        #: What has happened since then is not known: nobody becomes suspect for a silence that nobody could hear. 0: all is known.
        self.known_until_ms = 0
        #: Who has gone, when and why.
        self.offline = Offline(complain)
        #: Whose circuit is not closed: agent_id -> partition. What `route` has said is known here before it is told to all.
        self.circuits: dict[str, dict[int, OpenCircuit]] = {}
        #: Who may call whom.
        self.access = Access(self._unread)
        self._policies: dict[str, RoutePolicy] = {}
        self._digests: dict[str, str] = {}  # of these
        self._offers = Offers()
        self._by_group: dict[str, set[str]] = {}
        self._remembered: dict[str, tuple[Agent, ...]] = {}
        self._asked = Asked()  # the patterns of those
        self._pools = Pools()
        self._intents = Intents(self._said_of, model)

    # ---------------------------------------------------------------- asked by the router
    def match(self, pattern: Pattern) -> tuple[Agent, ...]:
        """Every registered agent that answers the pattern, by agent_id in order, whatever its state."""
        if pattern.kind == "agent_id":
            agent = self.agents.get(pattern.name)
            return () if agent is None else (agent,)
        found = self._remembered.get(pattern.text)
        if found is None:
            if len(self._remembered) >= MAX_REMEMBERED:
                self._remembered.clear()
                self._asked.clear()
            found = tuple(self.agents[agent_id] for agent_id in sorted(self._find(pattern)))
            self._remembered[pattern.text] = found
            self._asked.note(pattern)
        return found

    def pool(self, pattern: Pattern, strategy: str, weighing: Weighing) -> Pool | None:
        """The same agents, where they are many, so that one can be drawn as the strategy weighs them. None: they are few."""
        weights = self.policy(pattern.text).weights
        if pattern.kind == "intent":
            terms = self.terms_of(pattern)
            if not terms or weights:
                return None
            pattern = Pattern(f"capability:{terms[0].name}", "capability", terms=terms)
        pool = self._pools.get(pattern, strategy, weights)
        if pool is None:
            matched = self.match(pattern)
            if len(matched) > SMALL:
                pool = self._pools.make(pattern, strategy, weighing, weights, matched)
        return pool

    def ranked(self, intent: str) -> list[Ranked]:
        """The capabilities that answer a free text best; the first of them is what `intent:` means by it."""
        return self._intents.rank(intent)

    def read_intents(self, most: int) -> int:
        """Read so many of the capabilities that have changed, ahead of the next `ranked`. How many are left."""
        return self._intents.read(most)

    def learned(self) -> None:
        """The model has read more: what a free text means may be another capability now."""
        self._remembered.clear()
        self._asked.clear()

    def terms_of(self, pattern: Pattern) -> tuple[Term, ...]:
        """The capabilities that a pattern asks for: those that it names, or the one that its free text means."""
        if pattern.kind != "intent":
            return pattern.terms
        return tuple(Term(best.capability) for best in self.ranked(pattern.name)[:1])

    def policy(self, pattern: str) -> RoutePolicy:
        """The policy that the admin gave this pattern, else the default one."""
        return self._policies.get(pattern, DEFAULT_POLICY)

    def has_policy(self, pattern: str) -> bool:
        """Whether the admin gave this pattern a policy that can be read."""
        return pattern in self._policies

    def policy_digest(self, pattern: str) -> str:
        """What records name it by; NO_POLICY where the default holds."""
        return self._digests.get(pattern, NO_POLICY)

    def caller(self, agent_id: str, name: str) -> Caller | None:
        """What a source may call; None: everything."""
        return self.access.of(agent_id, name, self.agents.get(agent_id))

    def has_agent(self, agent_id: str) -> bool:
        """Whether this agent is registered."""
        return agent_id in self.agents

    def has_type(self, name: str) -> bool:
        """Whether messages of this type may be sent: built in, or registered by an agent or an admin."""
        return name in self.types

    def setting(self, name: str, default: int) -> int:
        """A count or duration from `meta`; the default where there is none, or none that is a number."""
        number = ids.count_of(self.meta.get(name, ""))
        return default if number is None else number

    def note_open(self, agent_id: str, partition: int, until_ms: int) -> None:
        """`route` has handed nothing to this agent, and will not before then."""
        if agent_id not in self.agents:
            return
        known = self.circuits.setdefault(agent_id, {}).get(partition)
        why = known.why if known is not None else "it has failed again and again"
        self.circuits[agent_id][partition] = OpenCircuit(until_ms, why)

    def alive_since_ms(self, now_ms: int) -> int:
        """Instances that have not beaten since then are suspect."""
        since_ms = self._known(now_ms) - SUSPECT_MS
        return min(since_ms, self.floor_ms) if self.floor_ms else since_ms

    # ---------------------------------------------------------------- fed by the watcher
    def load(
        self,
        agents: Mapping[str, bytes],
        routes: Mapping[str, bytes],
        types: Iterable[str],
        meta: Mapping[str, str],
        circuits: Mapping[str, bytes] = NO_CIRCUITS,
        rules: Mapping[str, bytes] | None = NO_RULES,
        families: Mapping[str, bytes] = NO_CIRCUITS,
    ) -> None:
        """Forget everything but the beats, and take these (the hashes of the env, as stored; `rules` None: they cannot be read)."""
        beats = {agent_id: agent.instances for agent_id, agent in self.agents.items()}
        self.agents.clear()
        for capability in self._offers:
            self._intents.changed(capability)
        self._offers.clear()
        for grouped in (self._by_group, self._policies, self._digests, self._remembered, self.circuits):
            grouped.clear()
        self._asked.clear()
        self._pools = Pools()
        self.types.load(types)
        self.schemas.clear()
        for name, data in families.items():
            self._set_family(name, data)
        for agent_id, data in agents.items():
            self._register(agent_id, data, beats.get(agent_id))
        for pattern, data in routes.items():
            self._set_policy(pattern, data or EMPTY)
        self.meta = dict(meta)
        self.access.load(rules)
        self.access.close(self.meta.get("closed"))
        for name, data in circuits.items():
            self._set_circuit(name, data)

    def apply(self, op: str, name: str, data: bytes, at_ms: int = 0) -> None:
        """Take one change: agent, gone, state, circuit, route, rule, type, schema, meta. Empty data removes; unknown ops do nothing."""
        if op == "agent":
            known = self.agents.get(name)
            self._register(name, data, known.instances if known else None)
        elif op == "gone":
            self._leave(name, data)
        elif op == "state":
            agent_id, _, instance_id = name.partition("/")
            self.beat(agent_id, instance_id, at_ms, data)
        elif op == "circuit":
            self._set_circuit(name, data)
        elif op == "route":
            self._set_policy(name, data)
        elif op == "rule":
            self.access.set(name, data)
        elif op == "type":
            self.types.write(name, there=bool(data))
        elif op == "schema":
            self._set_family(name, data)
        elif op == "meta":
            self.meta.pop(name, None)
            if data:
                self.meta[name] = data.decode("utf-8", "replace")
            if name == "closed":
                self.access.close(self.meta.get(name))

    def beat(self, agent_id: str, instance_id: str, at_ms: int, data: bytes) -> bool:
        """Take one instance's beat. False: no such agent (yet), or no beat that can be read."""
        agent = self.agents.get(agent_id)
        if agent is None or agent.repeats(instance_id, at_ms, data):
            return agent is not None
        read = self._read(records.read_beat, data, f"{agent_id}/{instance_id}")
        if read is None:
            return False
        if read[1]:
            self._complain(f"{agent_id}/{instance_id}", read[1])
        agent.beat(instance_id, at_ms, read[0], data)
        self._pools.hear(agent)
        return True

    def forget_beats(self) -> None:
        """Drop every beat: the clock of the backend went back, so that the old ones would hide the new ones."""
        for agent in self.agents.values():
            agent.forget(*agent.instances)
            self._pools.hear(agent)

    def forget_silent(self, now_ms: int) -> int:
        """Drop the instances that have been silent for a minute; says how many. Their agents stay until they are told to be gone."""
        before_ms, dropped = self._known(now_ms) - FORGET_MS, 0
        if self.floor_ms:
            before_ms = min(before_ms, self.floor_ms)
        for agent in self.agents.values():
            if len(agent.instances) < 2 and agent.last_beat_ms() >= before_ms:
                continue
            silent = [key for key, instance in agent.instances.items() if instance.at_ms < before_ms]
            if silent:
                agent.forget(*silent)
                self._pools.hear(agent)
                dropped += len(silent)
        return dropped

    # ---------------------------------------------------------------- inside
    def _known(self, now_ms: int) -> int:
        return min(now_ms, self.known_until_ms) if self.known_until_ms else now_ms

    def _find(self, pattern: Pattern) -> AbstractSet[str]:
        if pattern.kind == "group":
            return self._by_group.get(pattern.name, NOBODY)
        if pattern.kind == "intent":
            best = self.ranked(pattern.name)[:1]
            return self._offers.of(best[0].capability) if best else NOBODY
        # The rarest capability first: then no step is longer than the shortest list.
        first, *others = sorted((self._with(term) for term in pattern.terms), key=len)
        for other in others:
            first = first & other
        return first

    def _with(self, term: Term) -> AbstractSet[str]:
        return self._offers.below(term.name + ".") if term.prefix else self._offers.of(term.name)

    def _said_of(self, capability: str) -> Iterator[str]:
        for agent_id in sorted(self._offers.of(capability)):
            for declared in self.agents[agent_id].declared.capabilities:
                if declared.name == capability:
                    yield from said_of(declared.description, declared.examples)

    def _register(self, agent_id: str, data: bytes, instances: dict[str, Instance] | None) -> None:
        declared = self._read(records.decode_stored_registration, data, agent_id)
        self._remove(agent_id)
        if not isinstance(declared, StoredRegistration):
            return  # removed, or nothing that can be read
        if declared.agent_id != agent_id:
            self._unread(agent_id, f"it is the registration of {declared.agent_id[:128]}")
            return
        agent = Agent(declared, instances)
        self.agents[agent_id] = agent
        self.offline.back(agent_id)
        self.access.forget()
        self.types.accept(agent.accepts, 1)
        self._forget_answers(agent)
        self._pools.join(agent)
        for capability in agent.capabilities:
            self._offers.add(capability, agent_id)
            self._intents.changed(capability)
        for group in agent.groups:
            self._by_group.setdefault(group, set()).add(agent_id)

    def _leave(self, name: str, tombstone: bytes) -> None:
        """An agent is gone, or (`agent_id/instance_id`) one of its instances."""
        agent_id, slash, instance_id = name.partition("/")
        if not slash:
            self._remove(agent_id)
            self.circuits.pop(agent_id, None)
            self.offline.note(agent_id, tombstone)
        elif agent_id in self.agents:
            self.agents[agent_id].forget(instance_id)
            self._pools.hear(self.agents[agent_id])

    def _remove(self, agent_id: str) -> None:
        agent = self.agents.pop(agent_id, None)
        if agent is None:
            return
        self.types.accept(agent.accepts, -1)
        self.access.forget()
        self._forget_answers(agent)
        self._pools.leave(agent_id)
        for capability in agent.capabilities:
            self._offers.drop(capability, agent_id)
            self._intents.changed(capability)
        for group in agent.groups:
            self._by_group[group].discard(agent_id)
            if not self._by_group[group]:
                del self._by_group[group]

    def _forget_answers(self, agent: Agent) -> None:
        """Those that it is part of, or will be."""
        for pattern in self._asked.touched_by(agent):
            self._remembered.pop(pattern.text, None)
            self._asked.forget(pattern)

    def _set_circuit(self, name: str, data: bytes) -> None:
        """Take what is told of a circuit; `name` is `agent_id/partition`."""
        agent_id, _, number = name.rpartition("/")
        partition = ids.count_of(number)
        told = self._read(decode_circuit, data, name) if data else None
        if partition is None or agent_id not in self.agents:
            return
        if told is not None:
            self.circuits.setdefault(agent_id, {})[partition] = told
        elif agent_id in self.circuits:
            self.circuits[agent_id].pop(partition, None)

    def _set_family(self, name: str, data: bytes) -> None:
        self.schemas.set(name, self._read(decode_family, data, name) if data else None)

    def _set_policy(self, pattern: str, data: bytes) -> None:
        policy = self._read(records.decode_policy, data, pattern) if data else None
        if policy is None:
            self._policies.pop(pattern, None)
            self._digests.pop(pattern, None)
        else:
            self._policies[pattern] = policy
            self._digests[pattern] = policy_digest(data)

    def _unread(self, name: str, problem: str) -> None:
        self.unreadable += 1
        self._complain(name, problem)

    def _read(self, decode: Callable[[bytes], T], data: bytes, name: str) -> T | None:
        try:
            return decode(data)
        except RecordError as error:
            self._unread(name, error.message)
            return None
