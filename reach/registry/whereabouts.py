"""Where the entries of one page of `control` come from, asked of the backend once for all of them, and only if somebody wants to know."""

from collections.abc import Sequence

from reach.backend import Backend
from reach.errors import BackendError, RegistrationRefused


class Whereabouts:
    """Of one page: all of it was added before anybody asks, so that those who added it are still to be seen."""

    def __init__(self, backend: Backend, entries: Sequence[bytes]) -> None:
        self._backend, self._entries = backend, list(dict.fromkeys(entries))
        self._found: list[list[str]] | None = None
        self._asked = False

    async def of(self, entry: bytes) -> Sequence[str] | None:
        """The addresses of those who vouch for an entry of the page; None: this backend has no connections.

        Raises:
            RegistrationRefused: `registration.bad_address`: the worker may not ask.
            BackendError: It cannot ask now.
        """
        if not self._asked:
            try:
                self._found = await self._backend.peers(self._entries)
            except BackendError as error:
                if error.retryable:
                    raise
                text = f"the worker cannot ask Redis where agents come from (CLIENT LIST): {error.message}"
                raise RegistrationRefused(text, code="registration.bad_address") from None
            self._asked = True
        return None if self._found is None else self._found[self._entries.index(entry)]
