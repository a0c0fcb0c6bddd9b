"""Changes one setting or policy over what was read: whoever was slower reads again, so that nobody undoes what another has said."""

from collections.abc import Awaitable, Callable
from typing import TypeVar

from reach.backend.port import Backend
from reach.backend.steps import MetaKind
from reach.errors import ConfigError

#: Several who change one of them at once: the slower ones read again, so often.
MAX_TRIES = 50
T = TypeVar("T")


async def swap(
    backend: Backend,
    kind: MetaKind,
    name: str,
    what: str,
    change: Callable[[], Awaitable[tuple[bytes | None, bytes, T]]],
) -> T:
    """Write one setting or policy over what was read, again from the reading where somebody else was faster.

    Args:
        backend: Of the env.
        kind: Where it lies.
        name: Of the field there.
        what: What it is, in words, for the error.
        change: Reads, and gives what it has read (None = nothing), what is to lie there, and a result. What it raises goes through.

    Returns:
        The result of the change that was written.

    Raises:
        ConfigError: Others write without end; nothing has changed.
        BackendError: It could not be written.
    """
    for _ in range(MAX_TRIES):
        there, value, result = await change()
        if await backend.swap_meta(kind, name, value, there):
            return result
    raise ConfigError(f"others changed {what} {MAX_TRIES} times: try again")
