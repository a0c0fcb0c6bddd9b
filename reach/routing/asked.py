"""Which of the patterns that were asked for an agent has to do with: so that what is known of all others outlives its coming and going."""

from collections.abc import Iterator

from reach.routing.agents import Agent
from reach.routing.pattern import Pattern

#: What a free text means may change with every capability.
INTENTS = ("intent", "")


class Asked:
    """Patterns, found by what agents declare. A lookup costs as much as an agent declares, however many patterns there are."""

    def __init__(self) -> None:
        self._by_mark: dict[tuple[str, str], dict[str, Pattern]] = {}

    def note(self, pattern: Pattern) -> None:
        """It was asked for."""
        for mark in _marks_of(pattern):
            self._by_mark.setdefault(mark, {})[pattern.text] = pattern

    def touched_by(self, agent: Agent) -> list[Pattern]:
        """Those whose answer may change when this agent comes or goes."""
        if not self._by_mark:
            return []  # thousands are taken in before anybody asks
        found: dict[str, Pattern] = {}
        for mark in _marks_by(agent):
            if mark in self._by_mark:
                found.update(self._by_mark[mark])
        return list(found.values())

    def forget(self, pattern: Pattern) -> None:
        """It is of no interest any more."""
        for mark in _marks_of(pattern):
            of_mark = self._by_mark.get(mark, {})
            of_mark.pop(pattern.text, None)
            if not of_mark:
                self._by_mark.pop(mark, None)

    def clear(self) -> None:
        """None is."""
        self._by_mark.clear()


def answers(agent: Agent, pattern: Pattern) -> bool:
    """Whether the agent is among those that a pattern of capabilities or a group asks for."""
    if pattern.kind == "group":
        return pattern.name in agent.groups
    return bool(pattern.terms) and all(any(map(term.matches, agent.capabilities)) for term in pattern.terms)


def _marks_of(pattern: Pattern) -> Iterator[tuple[str, str]]:
    if pattern.kind == "intent":
        yield INTENTS
    elif pattern.kind == "capability":
        for term in pattern.terms:
            yield ("below" if term.prefix else "capability"), term.name
    else:
        yield pattern.kind, pattern.name


def _marks_by(agent: Agent) -> Iterator[tuple[str, str]]:
    yield "agent_id", agent.agent_id
    for group in agent.groups:
        yield "group", group
    for capability in agent.capabilities:
        yield "capability", capability
        at = capability.find(".")
        while at > 0:
            yield "below", capability[:at]
            at = capability.find(".", at + 1)
    if agent.capabilities:
        yield INTENTS
