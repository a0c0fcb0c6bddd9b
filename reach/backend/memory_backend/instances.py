"""Which instances of each agent have beaten: the hash `instances`, so that nobody looks for them among the beats of all others."""

from collections.abc import Iterable

from reach.backend.memory_backend.env_side import EnvSide
from reach.backend.memory_backend.store import Hash


def ids_in(text: bytes) -> list[str]:
    """The instances in a value of the hash: each id stands behind a slash."""
    return [each for each in text.decode("utf-8", "replace").split("/") if each]


def note(known: Hash, agent_id: str, instance_id: str, others: Iterable[str]) -> None:
    """One that beats for the first time. `others`: who has beaten for an agent that the hash does not know yet."""
    stored = known.get(agent_id)
    there = list(others) if stored is None else ids_in(stored)
    if instance_id not in there:
        there.append(instance_id)
    known[agent_id] = _text(there)


def drop(known: Hash, agent_id: str, instance_id: str) -> None:
    """One that has gone."""
    stored = known.get(agent_id)
    if stored is not None:
        known[agent_id] = _text(each for each in ids_in(stored) if each != instance_id)


def _text(instances: Iterable[str]) -> bytes:
    return "".join(f"/{each}" for each in instances).encode()


class InstancesSide(EnvSide):
    """The hash, and where it does not know an agent, the beats of all."""

    def _instances(self, agent_id: str) -> list[str]:
        beats, known = self._peek_zset(self._keys.beats()), self._peek_instances().get(agent_id)
        if known is None:
            return [member for member in beats if member.startswith(f"{agent_id}/")]
        return [member for each in ids_in(known) if (member := f"{agent_id}/{each}") in beats]

    def _peek_instances(self) -> Hash:
        self._store.clear_wrong(self._keys.instances(), "hash")
        return self._peek_hash(self._keys.instances())

    def _note_instance(self, agent_id: str, instance_id: str, *, new: bool) -> None:
        others = [] if new else [member.partition("/")[2] for member in self._instances(agent_id)]
        note(self._hash(self._keys.instances()), agent_id, instance_id, others)

    def _forget_instances(self, agent_id: str) -> None:
        self._peek_instances().pop(agent_id, None)
        self._store.drop_empty(self._keys.instances())
