"""What a router knows of the settings, policies, types and rules of its env, as far as they were told or read. Pure."""

from collections.abc import Iterator, Mapping

from reach.backend.steps import Change, Snapshot, Written
from reach.routing.access import EMPTY

Fields = Mapping[str, bytes]
NOTHING: Fields = {}


class Standing:
    """Told changes and what was read are one after the other by the version of the env: neither undoes what the other knows better."""

    def __init__(self) -> None:
        self._known: dict[str, dict[str, bytes]] = {}
        self._version = 0  # of the last reading

    def load(self, read: Snapshot | Written) -> None:
        """Begin anew with what was read."""
        self._known = {op: dict(fields) for op, fields in _fields(read).items()}
        self._version = read.version

    def hears(self, change: Change) -> bool:
        """Note what was told. False: it is of before the last reading, which knows what became of it."""
        if change.op not in OPS:
            return True
        if change.version <= self._version:
            return False
        known = self._known.setdefault(change.op, {})
        known.pop(change.name, None)
        if change.data:
            known[change.name] = EMPTY if change.op == "type" else change.data
        return True

    def reads(self, written: Written) -> Iterator[tuple[str, str, bytes]]:
        """What differs: op, name and data, as in a change. From then on it is known."""
        before = self._known
        self.load(written)
        for op, fields in self._known.items():
            known = before.get(op, NOTHING)
            if fields == known:
                continue
            for name in fields.keys() | known.keys():
                if fields.get(name) != known.get(name):
                    yield op, name, fields.get(name, b"")


OPS = frozenset({"route", "type", "meta", "rule"})


def _fields(read: Snapshot | Written) -> dict[str, Fields]:
    return {
        "route": {name: data or EMPTY for name, data in read.routes.items()},
        "type": dict.fromkeys(read.types, EMPTY),
        "meta": {name: text.encode() or EMPTY for name, text in read.meta.items()},
        "rule": {name: data or EMPTY for name, data in (read.rules or NOTHING).items()},
    }
