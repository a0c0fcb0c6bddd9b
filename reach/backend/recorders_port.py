"""The part of the Backend protocol by which processes say up to when their hop records are written. See `reach.backend.port`."""

from typing import Protocol


class RecordersPort(Protocol):
    """Words of an env, said again every few seconds. A name is `<node_id>/<worker>`, as the records say it; the node may be empty."""

    async def tell_recorder(self, name: str, at_ms: int | None) -> None:
        """All its records from before `at_ms` are written; None: it ends in order, and nobody has to look for it.

        Raises:
            BackendError: A name that is none.
        """
        ...

    async def silent_recorders(self, before_ms: int) -> list[tuple[str, int]]:
        """(name, up to when its records are written), where that is before `before_ms`; the oldest first, at most 1,000.

        Words from the future, said before the clock went back, are brought to now.
        """
        ...

    async def forget_recorder(self, name: str, before_ms: int) -> bool:
        """Forget it unless it has said something for `before_ms` or later. False: it has. Again: True."""
        ...
