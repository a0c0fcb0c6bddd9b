"""Posts every terminal receipt that is recorded to an address of the user's, as JSON: at least once, in a group of its own."""

import asyncio
import http.client
from collections.abc import Iterator, Sequence
from typing import Any
from urllib.parse import urlsplit

import msgspec

from reach.backend.followed import Followed, Trimmed
from reach.clock import Clock, SystemClock
from reach.errors import BackendError, ConfigError
from reach.events.archiver import EventSource
from reach.events.store import batch_name, bodies_of
from reach.log import PacedLog, event_log
from reach.service import Report

GROUP = "receipt-hook"
MAX_BATCHES = 10
PACE_MS = 200
#: What another worker holds for so long is posted again: it is dead, or its address is away.
TAKE_OVER_MS = 60_000
TIMEOUT_S = 5.0
#: A receipt that is refused, or finds nobody, so often is given up; the waits between double.
MAX_TRIES, FIRST_WAIT_MS = 6, 250
MAX_AT_ONCE = 4
#: What a record says about the end beside the receipt itself.
_COPIED = (
    "point",
    "at_us",
    "msg_id",
    "leg",
    "attempt",
    "code",
    "correlation_id",
    "type",
    "schema",
    "agent",
    "instance",
    "trace_id",
    "receipt",
    "left_out",
)
log = event_log("reach.events")


class Post(msgspec.Struct, frozen=True):
    """What is sent. `key` is the same however often it comes: the header Idempotency-Key."""

    key: str
    body: bytes


class Address:
    """Where receipts go. Its path, and whoever it names, may be secret: it calls itself by its host alone."""

    def __init__(self, url: str, token: str = "") -> None:
        """`token` goes with each post as a bearer token. Raises ConfigError for what is no address."""
        wanted = "--receipt-hook: http://host/path or https://host/path is wanted"
        try:
            parts = urlsplit(url)
            host, port = parts.hostname, parts.port
        except ValueError:
            raise ConfigError(wanted) from None
        path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        is_sendable = path.isascii() and path.isprintable() and " " not in path
        if not host or parts.scheme not in {"http", "https"} or not is_sendable:
            raise ConfigError(wanted)
        self._host, self._port, self._secure = host, port, parts.scheme == "https"
        self._path = path
        self._token = token

    def __str__(self) -> str:
        return self._host

    def post(self, post: Post) -> int:
        """Send it and read the answer; its status. Blocks for 5 s at most each way. Raises OSError or HTTPException."""
        kind = http.client.HTTPSConnection if self._secure else http.client.HTTPConnection
        connection = kind(self._host, self._port, timeout=TIMEOUT_S)
        headers = {"Content-Type": "application/json", "Idempotency-Key": post.key, "User-Agent": "reach"}
        if self._token:
            headers["Authorization"] = f"Bearer {self._token}"
        try:
            connection.request("POST", self._path, post.body, headers)
            return connection.getresponse().status
        finally:
            connection.close()


class ReceiptHook:
    """A service. What waits behind a receipt that is tried again waits in Redis, as long as records are kept there; nobody else does."""

    name = "receipt-hook"

    def __init__(
        self,
        source: EventSource,
        address: Address,
        partitions: Sequence[int],
        reader: str,
        *,
        clock: Clock | None = None,
        take_over_ms: int = TAKE_OVER_MS,
    ) -> None:
        self._take_over_ms = take_over_ms
        self._source, self._address = source, address
        self._partitions, self._reader = tuple(partitions), reader
        self._clock: Clock = clock or SystemClock()
        self._log = PacedLog(log, self._clock)
        self._full = False
        self._noted: dict[int, Trimmed] = {}  # by partition: what was gone, and has been told
        self._places = asyncio.Semaphore(MAX_AT_ONCE)
        self.posted = self.given_up = self.missed = 0  # receipts; the same; batches that were gone before

    @property
    def interval_ms(self) -> int:
        """At once where more may lie there."""
        return 0 if self._full else PACE_MS

    async def run_once(self) -> Report:
        """Post what has been recorded since. Cancelling is safe: what is not finished comes again.

        Raises:
            BackendError: Redis is away.
        """
        self._full = False
        posted = 0
        for partition in self._partitions:
            noted = self._noted.get(partition)
            followed = await self._source.follow_events(
                partition, GROUP, self._reader, MAX_BATCHES, self._take_over_ms, noted=noted
            )
            self._noted.pop(partition, None)
            await self._tell(partition, followed)
            for entry_id, batch in followed.batches:
                posts = list(posts_of(partition, batch))
                await asyncio.gather(*map(self._deliver, posts))
                await self._source.finish_events(partition, GROUP, [entry_id])
                posted += len(posts)
            self._full |= len(followed.batches) >= MAX_BATCHES or followed.trimmed is not None
        return {"posted": posted} if posted else {}

    async def _tell(self, partition: int, followed: Followed) -> None:
        """Say what was gone before it could be posted: only then the group goes on behind it."""
        missed = len(followed.gone) + (followed.trimmed.count if followed.trimmed is not None else 0)
        if not missed:
            return
        self._log.warning("records were gone before they were posted", of=partition, batches=missed)
        self.missed += missed
        if followed.trimmed is not None:
            self._noted[partition] = followed.trimmed
        await self._source.finish_events(partition, GROUP, followed.gone)

    async def _deliver(self, post: Post) -> None:
        why = ""
        for number in range(MAX_TRIES):
            if number:
                await self._clock_wait(FIRST_WAIT_MS << (number - 1))
            try:
                async with self._places:
                    status = await asyncio.to_thread(self._address.post, post)
            except (OSError, http.client.HTTPException) as error:
                why = type(error).__name__
                continue
            if 200 <= status < 300:
                self.posted += 1
                return
            why = f"status {status}"
            if 300 <= status < 500 and status not in {408, 429}:
                break  # again would be refused again
        self.given_up += 1
        self._log.warning("receipt not posted", of=why, hook=str(self._address), key=post.key, reason=why)

    async def _clock_wait(self, ms: int) -> None:
        over = asyncio.Event()
        take_back = self._clock.call_later(ms, over.set)
        try:
            await over.wait()
        finally:
            take_back()

    async def close(self) -> None:
        """Leave the group: what is not finished goes to another worker, or waits for the next start."""
        for partition in self._partitions:
            try:
                await self._source.unfollow_events(partition, GROUP, self._reader)
            except BackendError as error:
                log.info("events left to others", extra={"error": error.code})
                return


def posts_of(partition: int, batch: bytes) -> Iterator[Post]:
    """The ends of legs in a batch. What is no batch, or no record, has none."""
    if b'"final":true' not in batch:
        return
    try:
        raws = bodies_of(batch)
    except ValueError:
        return
    name = batch_name(partition, batch)
    for number, raw in enumerate(raws):
        try:
            told = _members(raw)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            continue
        if bytes(told.get("final", b"")) == b"true":
            body: dict[str, Any] = {name: told[name] for name in _COPIED if name in told}
            yield Post(f"{name}/{number:03d}", msgspec.json.encode(body))


_members = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
