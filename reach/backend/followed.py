"""What a reader of `events` is given. See `reach.backend.port`."""

import msgspec


class Trimmed(msgspec.Struct, frozen=True):
    """Batches that a group of readers of `events` will never have: all that lay between two others.

    had, trimmed: how many had ever been written up to its place, and up to the first that is still there. after: the last that it has
    been given (entry id; 0-0: none of this stream). first: the first that is still there, or where there is none the last there was.
    """

    had: int
    trimmed: int
    after: str
    first: str

    @property
    def count(self) -> int:
        """How many."""
        return self.trimmed - self.had


class Followed(msgspec.Struct, frozen=True):
    """What a reader of `events` has to do next.

    batches: entry id and JSON array of records. trimmed: what is gone before them; nothing new is given until that is noted. gone: batches
    that were trimmed while somebody of the group had them in hand, by id; they come again until they are finished, as batches do.
    """

    batches: tuple[tuple[str, bytes], ...] = ()
    trimmed: Trimmed | None = None
    gone: tuple[str, ...] = ()
