"""What is read as hop records and is none, told in the log: how much, and where the first of it lay."""

from reach.clock import Clock, SystemClock
from reach.log import SAME_EVERY_MS, EventLog


class Junk:
    """Of each partition one line in 10 s at most, which counts all that there was since the line before it."""

    def __init__(self, log: EventLog, clock: Clock | None = None) -> None:
        self._log = log
        self._clock: Clock = clock or SystemClock()
        self._found: dict[int, list[int]] = {}  # batches, records
        self._first: dict[int, tuple[str, str]] = {}
        self._told_at_ms: dict[int, int] = {}

    def add(self, partition: int, entry_id: str, number: int | None, why: str) -> None:
        """One more. `number`: of the record in its batch; None: the whole batch is none."""
        found = self._found.setdefault(partition, [0, 0])
        found[0 if number is None else 1] += 1
        self._first.setdefault(partition, (entry_id if number is None else f"{entry_id}/{number}", why))

    def tell(self, *, last: bool = False) -> None:
        """Say what there is. `last`: also what was to wait for the next line."""
        now_ms = self._clock.monotonic_ms()
        for partition, (batches, records) in tuple(self._found.items()):
            told_at_ms = self._told_at_ms.get(partition)
            if not last and told_at_ms is not None and now_ms - told_at_ms < SAME_EVERY_MS:
                continue
            entry, why = self._first.pop(partition)
            del self._found[partition]
            self._told_at_ms[partition] = now_ms
            self._log.warning(
                "unreadable records", of=str(partition), batches=batches, records=records, first=entry, error=why
            )
