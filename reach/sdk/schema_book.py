"""What one process has read of the schemas of its env: bounded, and looked up again after a while."""

from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

from reach.backend.port import Backend
from reach.clock import Clock
from reach.envelope.families import decode_family, family_of
from reach.errors import RecordError

#: What is stored hardly changes; what is missing may come at any moment.
FOUND_MS, ABSENT_MS = 60_000, 1_000
MAX_KEPT = 256

T = TypeVar("T")
NOBODY: frozenset[str] = frozenset()


class Kept(Generic[T]):
    """Answers by name; the oldest goes first."""

    def __init__(self, clock: Clock, ask: Callable[[str], Awaitable[T]]) -> None:
        self._clock, self._ask = clock, ask
        self._known: dict[str, tuple[int, T]] = {}

    async def get(self, name: str) -> T:
        now_ms = self._clock.monotonic_ms()
        known = self._known.get(name)
        if known is not None and now_ms < known[0]:
            return known[1]
        value = await self._ask(name)
        self._known.pop(name, None)
        while len(self._known) >= MAX_KEPT:
            del self._known[next(iter(self._known))]
        self._known[name] = (now_ms + (FOUND_MS if value else ABSENT_MS), value)
        return value

    def __len__(self) -> int:
        return len(self._known)


class SchemaBook:
    """The schemas of the env of a backend. For one event loop."""

    def __init__(self, backend: Backend, clock: Clock) -> None:
        self._backend = backend
        self._schemas: Kept[bytes | None] = Kept(clock, self._schema)
        self._readers: Kept[dict[str, frozenset[str]]] = Kept(clock, self._family)

    def __len__(self) -> int:
        """How many answers are kept."""
        return len(self._schemas) + len(self._readers)

    async def schema(self, name: str) -> bytes | None:
        """The JSON Schema of this name, as it is stored; None: there is none.

        Raises:
            BackendError: It cannot be read.
        """
        return await self._schemas.get(name)

    async def readers(self, name: str) -> frozenset[str]:
        """The other schemas whose readers may get a body of this one.

        Raises:
            BackendError: It cannot be read.
        """
        return (await self._readers.get(family_of(name))).get(name, NOBODY)

    async def _schema(self, name: str) -> bytes | None:
        return (await self._backend.read_schemas([name])).get(name)

    async def _family(self, name: str) -> dict[str, frozenset[str]]:
        data = (await self._backend.read_families([name])).get(name)
        try:
            return decode_family(data).readers() if data is not None else {}
        except RecordError:
            return {}
