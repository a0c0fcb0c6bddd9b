"""Who offers which capability. Most capabilities are offered by one agent: such a one costs its name and no set."""

from bisect import bisect_left, insort
from collections.abc import Iterator
from collections.abc import Set as AbstractSet

#: So many new names are put in their places one by one; of more, all are sorted once.
FEW = 32
NOBODY: frozenset[str] = frozenset()


class Offers:
    """Capability -> the agents that offer it, by agent_id."""

    def __init__(self) -> None:
        self._by: dict[str, str | set[str]] = {}
        self._names: list[str] = []  # sorted, so that a prefix is a slice
        self._new: dict[str, None] = {}  # not among those yet: nobody has asked for a prefix since they came

    def __len__(self) -> int:
        return len(self._by)

    def __iter__(self) -> Iterator[str]:
        """Every capability, in no order."""
        return iter(self._by)

    def add(self, capability: str, agent_id: str) -> None:
        """This agent offers it, too."""
        known = self._by.get(capability)
        if known is None:
            self._by[capability] = agent_id
            self._new[capability] = None
        elif isinstance(known, set):
            known.add(agent_id)
        elif known != agent_id:
            self._by[capability] = {known, agent_id}

    def drop(self, capability: str, agent_id: str) -> None:
        """This agent, which did, offers it no more."""
        known = self._by[capability]
        if isinstance(known, set):
            known.discard(agent_id)
            if len(known) == 1:
                self._by[capability] = known.pop()
            return
        del self._by[capability]
        if capability in self._new:
            del self._new[capability]
        else:
            del self._names[bisect_left(self._names, capability)]

    def of(self, capability: str) -> AbstractSet[str]:
        """Who offers it."""
        known = self._by.get(capability, NOBODY)
        return frozenset((known,)) if isinstance(known, str) else known

    def below(self, prefix: str) -> AbstractSet[str]:
        """Who offers anything whose name begins so."""
        names, found = self.names(), set[str]()
        for at in range(bisect_left(names, prefix), len(names)):
            if not names[at].startswith(prefix):
                break
            known = self._by[names[at]]
            if isinstance(known, str):
                found.add(known)
            else:
                found |= known
        return found

    def names(self) -> list[str]:
        """Every capability, sorted."""
        if len(self._new) > FEW:
            self._names += self._new
            self._names.sort()
        else:
            for name in self._new:
                insort(self._names, name)
        self._new.clear()
        return self._names

    def clear(self) -> None:
        """Nobody offers anything."""
        self._by.clear()
        self._names.clear()
        self._new.clear()
