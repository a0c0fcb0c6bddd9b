"""Who may call whom, as the router asks it: the rules of an env, compiled for each source that comes. No I/O.

Deny overrides: one rule that denies is enough, wherever it stands. Where none does, an open env lets everybody call everybody, and a
closed one only what a rule allows. What cannot be read counts as closed.
"""

import json
from collections.abc import Callable, Mapping
from typing import Any, Protocol

import msgspec

from reach import ids
from reach.envelope.call_rule import (
    SOURCE_KINDS,
    TARGET_KINDS,
    CallRule,
    glob_matcher,
    named,
    source_problem,
    target_problem,
    type_problem,
)
from reach.envelope.records import decode_call_rule
from reach.errors import RecordError
from reach.routing.pattern import Pattern

#: Sources, and answers about agents, are remembered up to so many; who makes up ever new names must not fill the memory.
MAX_CALLERS, MAX_ANSWERS = 4_096, 65_536
#: A rule, policy or setting with nothing in it is there all the same; in a change no data means that it is gone.
EMPTY = b" "
LOST = "the rules of this env cannot be read, so nothing is allowed"


class Callee(Protocol):
    """What must be known of an agent that could be called, or of a source that is registered."""

    agent_id: str
    groups: frozenset[str]
    capabilities: tuple[str, ...]


class Rule:
    """One rule, ready to be asked. `problem`: why it cannot be read as it stands; it then denies what can be read of it."""

    __slots__ = ("_source", "_source_kind", "_target", "_target_kind", "effect", "name", "problem", "type")

    def __init__(self, name: str, rule: CallRule, problem: str = "") -> None:
        self.name, self.effect, self.type, self.problem = name, rule.effect, rule.type, problem
        self._source_kind, source = named(rule.source, SOURCE_KINDS) or ("", "*")
        self._target_kind, target = named(rule.target, TARGET_KINDS) or ("", "*")
        self._source, self._target = glob_matcher(source).fullmatch, glob_matcher(target).fullmatch

    @property
    def by_group(self) -> bool:
        """Whether it must be known which groups the source is in."""
        return self._source_kind == "group"

    def is_from(self, agent_id: str, name: str, groups: frozenset[str]) -> bool:
        """Whether it is about this source. That a replica speaks for its name must show in its agent_id, for a rule that allows."""
        if self.by_group:
            return any(self._source(group) for group in groups)
        if self._source(agent_id):
            return True
        return bool(name) and self._source(name) is not None and (self.effect == "deny" or _is_replica(agent_id, name))

    def is_to(self, agent: Callee, capability: str) -> bool:
        """Whether it is about this agent, asked for this capability ("" = it offers none)."""
        if self._target_kind == "capability":
            return bool(capability) and self._target(capability) is not None
        if self._target_kind == "group":
            return any(self._target(group) for group in agent.groups)
        return self._target(agent.agent_id) is not None


class Caller:
    """What one source may call. Answers are remembered until anything changes."""

    __slots__ = ("_allows", "_answers", "_closed", "_denies", "_lost", "_name")

    def __init__(self, name: str, rules: tuple[Rule, ...], *, closed: bool, lost: bool) -> None:
        self._name, self._closed, self._lost = name, closed, lost
        self._denies = tuple(rule for rule in rules if rule.effect == "deny")
        self._allows = tuple(rule for rule in rules if rule.effect == "allow")
        self._answers: dict[tuple[str, str, str], str | None] = {}

    def refusal(self, agent: Callee, pattern: Pattern, type: str) -> str | None:
        """Why this source may not have a message of this type and target at this agent; None: it may."""
        key = (agent.agent_id, pattern.text, type)
        if key not in self._answers:
            if len(self._answers) >= MAX_ANSWERS:
                self._answers.clear()
            self._answers[key] = self._refusal(agent, called(agent, pattern), type)
        return self._answers[key]

    def _refusal(self, agent: Callee, asked: tuple[str, ...], type: str) -> str | None:
        if self._lost:
            return LOST
        for rule in self._denies:
            what = _first_of(rule, agent, asked, type)
            if what is not None:
                unread = (
                    f" (it cannot be read, so it counts as a refusal: {rule.problem[:128]})" if rule.problem else ""
                )
                return f"the rule {rule.name} denies {self._name} {_told(what)}{unread}"
        if not self._closed:
            return None
        for what in asked:
            if not any(_first_of(rule, agent, (what,), type) is not None for rule in self._allows):
                return f"the env is closed, and no rule allows {self._name} {_told(what)}"
        return None


class Access:
    """The rules of one env. `complain` hears of each that cannot be read: its name, and why."""

    def __init__(self, complain: Callable[[str, str], None] = lambda _name, _problem: None) -> None:
        self._complain = complain
        self._rules: dict[str, Rule] = {}
        self._callers: dict[tuple[str, str], Caller | None] = {}
        self._by_group = False
        self._closed = self._lost = False

    @property
    def by_group(self) -> bool:
        """Whether any rule must know which groups its source is in."""
        return self._by_group

    @property
    def closed(self) -> bool:
        """Whether nobody may call anybody without a rule that allows it."""
        return self._closed or self._lost

    @property
    def lost(self) -> bool:
        """Whether what there is cannot be read, so that nothing is allowed."""
        return self._lost

    @property
    def names(self) -> tuple[str, ...]:
        """The rules that are followed."""
        return tuple(self._rules)

    @property
    def unread(self) -> tuple[str, ...]:
        """Those of them that cannot be read, so that they deny."""
        return tuple(name for name, rule in self._rules.items() if rule.problem)

    def load(self, stored: Mapping[str, bytes] | None) -> None:
        """Forget all rules, and take these; None: what there is cannot be read, and nothing is allowed."""
        self._rules.clear()
        self._lost = stored is None
        for name, data in (stored or {}).items():
            self.set(name, data or EMPTY)
        self._renew()

    def set(self, name: str, data: bytes) -> None:
        """Take one rule; empty data removes it."""
        if data:
            self._rules[name] = rule = read(name, data)
            if rule.problem:
                self._complain(name, f"as a rule; it denies what it names: {rule.problem}")
        else:
            self._rules.pop(name, None)
        self._lost = False  # whoever writes one has made the key anew
        self._renew()

    def close(self, said: str | None) -> None:
        """Take the setting `closed`. What is neither absent nor 0 closes: junk must open nothing."""
        self._closed = said is not None and ids.count_of(said) != 0
        self.forget()

    def forget(self) -> None:
        """Who is registered, or how, has changed."""
        self._callers.clear()

    def of(self, agent_id: str, name: str, registered: Callee | None) -> Caller | None:
        """What this source may call; None: everything. `registered`: as what it is registered, if it is."""
        key = (agent_id, name)
        if key not in self._callers:
            if len(self._callers) >= MAX_CALLERS:
                self._callers.clear()
            self._callers[key] = self._caller(agent_id, name, registered)
        return self._callers[key]

    def _caller(self, agent_id: str, name: str, registered: Callee | None) -> Caller | None:
        groups = registered.groups if registered is not None else frozenset()
        rules = tuple(rule for rule in self._rules.values() if rule.is_from(agent_id, name, groups))
        if not self.closed and not any(rule.effect == "deny" for rule in rules):
            return None
        return Caller(agent_id or "a sender without a name", rules, closed=self._closed, lost=self._lost)

    def _renew(self) -> None:
        self._by_group = any(rule.by_group for rule in self._rules.values())
        self.forget()


def called(agent: Callee, pattern: Pattern) -> tuple[str, ...]:
    """What a message of this pattern could reach at this agent, each of which must be allowed.

    The capabilities that it names, as far as the agent offers them; where it names none for sure (agent_id, group, intent), all of them:
    which one its handler takes it for is not known here.
    """
    offered = agent.capabilities
    if pattern.terms:
        offered = tuple(one for one in offered if any(term.matches(one) for term in pattern.terms))
    return tuple(sorted(offered)) or ("",)


def read(name: str, data: bytes) -> Rule:
    """The rule that stands there; of one that cannot be read a refusal of all that it may have been about."""
    try:
        rule = decode_call_rule(data)
    except RecordError as error:
        return Rule(name, _salvaged(data), error.message)
    problem = source_problem(rule.source) or target_problem(rule.target)
    problem = problem or (type_problem(rule.type) if rule.type is not None else None)
    if problem is not None:
        return Rule(name, _salvaged(msgspec.json.encode(rule)), problem)
    return Rule(name, rule)


def _salvaged(data: bytes) -> CallRule:
    """A refusal for the source, target and type that can be read; what cannot, or stands there twice, is everything."""
    said: dict[str, Any] = {}

    def once(members: list[tuple[str, Any]]) -> dict[str, Any]:
        names = [name for name, _ in members]
        return {name: value for name, value in members if names.count(name) == 1}

    try:
        found = json.loads(data, object_pairs_hook=once)
        said = found if isinstance(found, dict) else {}
    except (ValueError, RecursionError):
        pass  # no JSON: nothing can be read of it
    source, target, type_ = (said.get(name) for name in ("source", "target", "type"))
    return CallRule(
        source=source if isinstance(source, str) and source_problem(source) is None else "*",
        target=target if isinstance(target, str) and target_problem(target) is None else "*",
        effect="deny",
        type=type_ if isinstance(type_, str) and type_problem(type_) is None else None,
    )


def _first_of(rule: Rule, agent: Callee, asked: tuple[str, ...], type: str) -> str | None:
    """The first thing asked for that the rule is about."""
    if rule.type is not None and rule.type != type:
        return None
    return next((what for what in asked if rule.is_to(agent, what)), None)


def _is_replica(agent_id: str, name: str) -> bool:
    return agent_id == name or agent_id.startswith((f"{name}-", f"{name}.", f"{name}_"))


def _told(what: str) -> str:
    return f"capability:{what}" if what else "this agent"
