"""A client's mailbox: one stream per partition, kept alive and read by two services."""

from collections.abc import Callable

from reach.backend.port import Backend
from reach.backend.steps import MailEntry
from reach.errors import BackendError
from reach.service import Report, Wait

KEEP_EVERY_MS = 2_000
BLOCK_MS = 1_000


class Mailbox:
    """What its owner knows of it. After a loss (of the connection, or of the mailbox itself) `on_back` is told once it is back.

    `on_made` is told, too, when it was the mailbox itself: whatever took it may have taken more.
    """

    def __init__(
        self,
        backend: Backend,
        mailbox_id: str,
        on_entry: Callable[[MailEntry], None],
        on_back: Callable[[], None],
        on_made: Callable[[], None] = lambda: None,
    ) -> None:
        self.id = mailbox_id
        self.cursors: dict[int, str] = {}
        self.reading = Wait()
        self.on_entry = on_entry
        self.on_back = on_back
        self.on_made = on_made
        self._backend = backend

    async def make(self) -> None:
        """Create it, or renew its lifetime and trim what was read.

        Where it had to be made anew, what lay in it is lost: the records must be asked.

        Raises:
            BackendError: It could not be done.
        """
        made = await self._backend.keep_mailbox(self.id, self.partitions, read=self.cursors)
        if not self.cursors:
            self.cursors = dict.fromkeys(self.partitions, "0")
        elif made:
            # From the start: ids that had run ahead of the clock, or a clock that stepped back, leave new ones before the old cursors.
            # A new dict, and no more waiting behind those: what a reading that is under way brings moves only the old ones.
            self.cursors = dict.fromkeys(self.partitions, "0")
            self.reading.cut()
            self.on_made()
            self.on_back()

    @property
    def partitions(self) -> range:
        """All of the env's: a receipt is written in the partition of its message."""
        return range(self._backend.partitions)


class Keeper:
    """Renews the mailbox every 2 s, so that it outlives a FLUSHALL and an outage."""

    name = "mailbox.keep"

    def __init__(self, mailbox: Mailbox) -> None:
        self._mailbox = mailbox
        self.interval_ms = KEEP_EVERY_MS

    async def run_once(self) -> Report:
        """Renew it once; a second time changes nothing."""
        await self._mailbox.make()
        return {}


class Reader:
    """Reads the mailbox and hands over every entry. The one reader there is."""

    name = "mailbox.read"
    interval_ms = 0

    def __init__(self, mailbox: Mailbox, backend: Backend) -> None:
        self._mailbox = mailbox
        self._backend = backend
        self._lost = False

    async def run_once(self) -> Report:
        """Wait up to 1 s for entries behind the cursors. Cancelling is safe: what was not handed over is read again."""
        mailbox, cursors = self._mailbox, self._mailbox.cursors
        try:
            entries = await mailbox.reading.on(self._backend.read_mail(mailbox.id, cursors, BLOCK_MS))
        except BackendError:
            self._lost = True
            raise
        if entries is None:  # the mailbox was made anew
            return {}
        if self._lost:
            self._lost = False
            mailbox.on_back()
        for entry in entries:
            cursors[entry.partition] = entry.id
            mailbox.on_entry(entry)
        return {"entries": len(entries)}
