"""Whether the rules would let a message through, asked before it is sent where being refused would lose something."""

from reach.backend.port import Backend
from reach.envelope.message import Envelope
from reach.errors import EnvelopeError
from reach.routing.index import CapabilityIndex
from reach.routing.pattern import parse, resolve_bare

MAX_TOLD = 3


class Permission:
    """Who may call whom, as it was when it was first asked for: for one piece of work, such as requeueing some letters."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._index: CapabilityIndex | None = None

    async def check(self, envelope: Envelope) -> None:
        """Nothing, where somebody may get it or nobody is there.

        Raises:
            EnvelopeError: `auth.denied`: the rules keep it from everybody who answers its pattern.
            BackendError: They cannot be read.
        """
        index = await self._known()
        source, pattern = envelope.source, parse(envelope.target.pattern)
        caller = index.caller(source.agent_id, source.name or "")
        if caller is None:
            return
        reasons = [caller.refusal(agent, pattern, envelope.type) for agent in index.match(pattern)]
        told = [reason for reason in reasons if reason is not None]
        if told and len(told) == len(reasons):
            text = f"{source.agent_id} may not call {pattern.text[:200]}: {'; '.join(sorted(set(told))[:MAX_TOLD])}"
            raise EnvelopeError("auth.denied", text, details={"pattern": pattern.text[:128]})

    async def pattern_of(self, target: str) -> str:
        """The pattern that a target is, also where it is a bare name.

        Raises:
            EnvelopeError: `target.bad_pattern`.
            BackendError: The registry cannot be read.
        """
        return resolve_bare(target, await self._known()).text

    async def _known(self) -> CapabilityIndex:
        self._index = self._index or await self._read()
        return self._index

    async def _read(self) -> CapabilityIndex:
        snapshot, index = await self._backend.snapshot(), CapabilityIndex()
        index.load(snapshot.agents, snapshot.routes, snapshot.types, snapshot.meta, snapshot.circuits, snapshot.rules)
        return index
