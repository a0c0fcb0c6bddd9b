"""A folder with one file for each day (UTC), of which the old ones go."""

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

from reach.events.store import DAY_US

_DAY = re.compile(r"events-(\d{4}-\d{2}-\d{2})")


def day_of(at_us: int) -> str:
    """The day of a moment, as `2026-11-30`."""
    return (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=at_us)).strftime("%Y-%m-%d")


class Days:
    """Files `events-<day><suffix>`. `days`: for how many days they are kept, today being one."""

    def __init__(self, folder: str, suffix: str, days: int) -> None:
        self.folder = Path(folder)
        self._suffix, self._days = suffix, days

    def path(self, day: str) -> Path:
        """The file of a day."""
        return self.folder / f"events-{day}{self._suffix}"

    def there(self, since_us: int = 0, until_us: int = 1 << 62) -> list[str]:
        """The days that have a file and lie in that time, oldest first."""
        found = (
            _DAY.fullmatch(path.name.removesuffix(self._suffix)) for path in self.folder.glob(f"events-*{self._suffix}")
        )
        first = day_of(min(since_us, _LAST_US))
        last = day_of(min(max(until_us - 1, 0), _LAST_US))
        return sorted(match[1] for match in found if match is not None and first <= match[1] <= last)

    def old(self, now_us: int) -> list[str]:
        """The days that are kept no longer. What says no moment lies in 1970, and goes with the first of them."""
        first = day_of(max(now_us - (self._days - 1) * DAY_US, 0))
        return [day for day in self.there() if day < first]


_LAST_US = 253_402_300_799_999_999  # the end of the year 9999, behind which there is no date
