"""A folder with one file for each day (UTC), of which the old ones go."""

import os
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

from reach.errors import ConfigError
from reach.events.store import DAY_US, LAST_US

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

    def must_be_there(self) -> None:
        """Raises ConfigError: There is no such folder, or this user may not look into it; and what to do."""
        kind, folder = self._suffix.removeprefix("."), self.folder
        try:
            os.scandir(folder).close()
        except FileNotFoundError:
            raise ConfigError(
                f"event store {folder}: there is no such folder; an archiver makes and fills it: "
                f"reach-worker run --roles archiver --event-store {kind}:{folder.absolute()}"
            ) from None
        except NotADirectoryError:
            raise ConfigError(
                f"event store {folder}: that is no folder; say the one that the files lie in: {kind}:{folder.parent}"
            ) from None
        except OSError as error:
            raise ConfigError(f"event store {folder}: {error.strerror or error}") from error

    def there(self, since_us: int = 0, until_us: int = 1 << 62) -> list[str]:
        """The days that have a file and lie in that time, oldest first."""
        found = (
            _DAY.fullmatch(path.name.removesuffix(self._suffix)) for path in self.folder.glob(f"events-*{self._suffix}")
        )
        first = day_of(min(since_us, LAST_US))
        last = day_of(min(max(until_us - 1, 0), LAST_US))
        return sorted(match[1] for match in found if match is not None and first <= match[1] <= last)

    def old(self, now_us: int) -> dict[str, list[Path]]:
        """The days that are kept no longer, with all that lies there of them: also what stands beside a file, or was moved aside.

        What says no moment lies in 1970, and goes with the first of them.
        """
        first = day_of(max(now_us - (self._days - 1) * DAY_US, 0))
        gone: dict[str, list[Path]] = {}
        for path in sorted(self.folder.glob("events-*")):
            match = _DAY.match(path.name)
            if match is not None and self._suffix in path.name and match[1] < first:
                gone.setdefault(match[1], []).append(path)
        return gone

    def aside(self, day: str) -> Path:
        """A free name for a file of that day that cannot be used: it is not looked into, and goes with its day."""
        number = 1
        while (path := self.folder / f"events-{day}.broken-{number}{self._suffix}").exists():
            number += 1
        return path
