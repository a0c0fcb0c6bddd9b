"""A bare name as a target: agent_id first, then capability."""

from reach import ids
from reach.backend.port import Backend
from reach.clock import Clock
from reach.envelope.rules import check_pattern
from reach.errors import EnvelopeError
from reach.sdk.options import Options

KEPT_MS = 1_000
MAX_NAMES = 1_000


class Names:
    """Turns what a caller writes into a pattern. An answer of the registry is kept for a second."""

    def __init__(self, backend: Backend, clock: Clock) -> None:
        self._backend = backend
        self._clock = clock
        self._known: dict[str, tuple[int, bool]] = {}

    async def pattern_of(self, target: str) -> str:
        """The pattern. A pattern is its own; a name is the agent of that id if there is one, else the capability.

        Raises:
            EnvelopeError: `target.bad_pattern`.
            BackendError: The registry cannot be asked.
        """
        if ":" in target:
            check_pattern(target)
            return target
        capability = f"capability:{target}"
        if not ids.is_name(target):
            if _is_pattern(capability):
                return capability
            text = (
                f"{target[:128]!r} is neither a name (letters, digits, '.', '_', '-', at most 128, the first a letter or digit) "
                "nor a pattern such as capability:refund"
            )
            raise EnvelopeError("target.bad_pattern", text, details={"pattern": target[:128]})
        if await self._is_agent(target) or not _is_pattern(capability):
            return f"agent_id:{target}"
        return capability

    async def _is_agent(self, name: str) -> bool:
        now = self._clock.monotonic_ms()
        at_ms, is_agent = self._known.get(name, (now - KEPT_MS, False))
        if now - at_ms < KEPT_MS:
            return is_agent
        is_agent = await self._backend.registered(name) is not None
        if len(self._known) >= MAX_NAMES:
            self._known.clear()
        self._known[name] = (now, is_agent)
        return is_agent


async def stages_of(options: Options, names: Names) -> tuple[tuple[str, ...], ...] | None:
    """The stages of a process_order as patterns. Raises as `pattern_of`."""
    order = options.get("process_order")
    if order is None:
        return None
    return tuple([tuple([await names.pattern_of(each) for each in stage]) for stage in order])


def _is_pattern(text: str) -> bool:
    try:
        check_pattern(text)
    except EnvelopeError:
        return False
    return True
