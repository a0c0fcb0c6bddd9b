"""Which instances of each agent have beaten: the hash `instances`, so that nobody looks for them among the beats of all others."""

from collections.abc import Iterable

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
