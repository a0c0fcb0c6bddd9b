"""What an agent was shown and does not answer: messages to all that have an order in which it has no part."""

import threading
from collections import deque
from typing import Any

import msgspec

from reach.backend.steps import Taken
from reach.envelope.codec import decode
from reach.errors import EnvelopeError
from reach.log import event_log
from reach.sdk.bodies import BodyError, decode_body

log = event_log("reach.agent")

#: So much is kept of them; the oldest go first.
MAX_OBSERVED = 1_000
MAX_OBSERVED_BYTES = 16 << 20


class Observed(msgspec.Struct, frozen=True, kw_only=True):
    """A message that this agent has seen. No handler runs, and nobody waits for an answer.

    Attributes:
        body: As JSON has it.
        source: The agent_id of its sender.
    """

    msg_id: str
    type: str
    schema: str | None = None
    body: Any = None
    source: str
    correlation_id: str
    headers: dict[str, str] = {}


class Observations:
    """The newest of them, in this process alone. Safe from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: deque[tuple[Observed, int]] = deque()
        self._size_bytes = 0

    def add(self, taken: Taken) -> None:
        """Keep a copy; what cannot be read is told to the log alone, since nobody waits for it."""
        try:
            observed = _read(taken.envelope)
        except (EnvelopeError, BodyError) as error:
            log.warning("unreadable copy", extra={"msg_id": taken.msg_id, "error": error.code})
            return
        with self._lock:
            self._kept.append((observed, len(taken.envelope)))
            self._size_bytes += len(taken.envelope)
            while len(self._kept) > MAX_OBSERVED or (self._size_bytes > MAX_OBSERVED_BYTES and len(self._kept) > 1):
                self._size_bytes -= self._kept.popleft()[1]

    def __call__(self) -> tuple[Observed, ...]:
        """All that are kept, the oldest first."""
        with self._lock:
            return tuple(observed for observed, _ in self._kept)


def _read(data: bytes) -> Observed:
    envelope = decode(data, max_bytes=len(data))
    return Observed(
        msg_id=envelope.msg_id,
        type=envelope.type,
        schema=envelope.payload.schema,
        body=decode_body(envelope.payload.body_bytes, Any),
        source=envelope.source.agent_id,
        correlation_id=envelope.conversation,
        headers=dict(envelope.headers),
    )
