"""A service: something that is run again and again, and may run twice at once without harm."""

from collections.abc import Mapping
from typing import Protocol

Report = Mapping[str, int]
"""What one run did, as counts: `{"reclaimed": 3}`. Empty: nothing was to do."""


class Service(Protocol):
    """One task with one owner: a name, a pace, and a run that ends by itself."""

    @property
    def name(self) -> str:
        """The name in logs and metrics."""
        ...

    @property
    def interval_ms(self) -> int:
        """The wait between the end of a run and the start of the next; 0 for one that blocks in its run."""
        ...

    async def run_once(self) -> Report:
        """Do what is due now and say what was done. Cancelling is safe: every step of it is atomic."""
        ...
