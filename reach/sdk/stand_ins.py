"""What stands in for a pattern: the fallback of its policy, which an agent asks for when it gets a message that names none of its own."""

from reach.backend.port import Backend
from reach.clock import Clock
from reach.envelope.records import decode_policy
from reach.errors import RecordError
from reach.routing.fallback import MAX_FALLBACKS
from reach.sdk.schema_book import Kept


class StandIns:
    """The fallbacks of the policies of an env, as one process knows them. For one event loop."""

    def __init__(self, backend: Backend, clock: Clock) -> None:
        self._backend = backend
        self._fallbacks: Kept[str | None] = Kept(clock, self._fallback)

    async def patterns(self, pattern: str) -> list[str]:
        """The patterns by which routers may have sent here what is for this one, nearest first.

        Raises:
            BackendError: They cannot be read.
        """
        found: list[str] = []
        while len(found) < MAX_FALLBACKS:
            following = await self._fallbacks.get(found[-1] if found else pattern)
            if following is None or following == pattern or following in found:
                break
            found.append(following)
        return found

    async def _fallback(self, pattern: str) -> str | None:
        data = (await self._backend.read_policies([pattern])).get(pattern)
        try:
            return decode_policy(data).fallback if data is not None else None
        except RecordError:  # routers go by the default then
            return None
