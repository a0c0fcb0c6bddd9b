"""The beat that a change entry brings with a registration: with it a router knows a newcomer whole, and asks for nobody's beats. Pure."""

from collections.abc import Mapping

from reach import ids
from reach.backend.steps import LastBeat


def told_beat(agent_id: str, fields: Mapping[bytes, bytes]) -> LastBeat | None:
    """How the instance is that has registered; None: the entry does not say so."""
    instance_id = fields.get(b"i", b"").decode("utf-8", "replace")
    at_ms = ids.count_of(fields.get(b"t", b"").decode("utf-8", "replace"))
    if not instance_id or at_ms is None:
        return None
    return LastBeat(agent_id, instance_id, at_ms, fields.get(b"b", b"{}"))
