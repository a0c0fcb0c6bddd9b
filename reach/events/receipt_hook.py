"""Posts every terminal receipt that is recorded to an address of the user's, as JSON: at least once, in a group of its own."""

import asyncio
import http.client
from collections.abc import Iterator, Sequence
from typing import Any
from urllib.parse import urlsplit

import msgspec

from reach import ids
from reach.backend.followed import Followed, Trimmed
from reach.clock import Clock, SystemClock
from reach.errors import BackendError, BackendUnavailable, ConfigError
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
#: A receipt that is not taken so often, each time after others were, is given up; the waits between double, up to the last.
MAX_TRIES, FIRST_WAIT_MS, MAX_WAIT_MS = 6, 250, 30_000
MAX_AT_ONCE = 4
#: An address that has taken nothing for so long counts as a failure of the service.
AWAY_MS = 8_000
#: So many are tried in one run, so that it ends.
MAX_A_RUN = 1_000
#: After so many failures one after the other the address is away: the others are not tried in this run.
MAX_IN_A_ROW = 2 * MAX_AT_ONCE
#: While so many are held nothing more is read: it waits in Redis.
MAX_HELD = 100
#: What a record says about the end beside the receipt itself.
_COPIED = (
    "point",
    "at_us",
    "msg_id",
    "leg",
    "round",
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


_Entry = tuple[int, str]
"""A batch: its partition and its entry id."""


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


class _Held(msgspec.Struct):
    """A receipt that is not through yet, and the batch that it came in."""

    post: Post
    entry: _Entry
    next_ms: int  # by the clock of the process
    tries: int = 0
    passed: int = 0  # tries that failed after others had been taken since the one before
    taken: int = 0  # how many the address had taken by the last try


class ReceiptHook:
    """A service. While its address is away it holds a few receipts and tries them again; the others wait in Redis, as long as they may.

    A receipt that alone is not taken, while others are, is given up at last, so that it stops no other.
    """

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
        self._full = self._away = False
        self._away_since_ms: int | None = None
        self._noted: dict[int, Trimmed] = {}  # by partition: what was gone, and has been told
        self._held: list[_Held] = []
        self._left: dict[_Entry, int] = {}  # receipts of each batch in hand that are not through
        self._only_here: set[_Entry] = set()  # batches in hand that Redis has let go
        self._after = dict.fromkeys(self._partitions, "0")
        self._renewed_ms = self._clock.monotonic_ms()
        self._in_a_row = 0  # tries of this run that have failed one after the other
        self._places = asyncio.Semaphore(MAX_AT_ONCE)
        self.posted = self.given_up = self.missed = 0  # receipts; the same; batches that were gone before

    @property
    def held(self) -> int:
        """How many receipts were not taken yet and are tried again."""
        return len(self._held)

    @property
    def interval_ms(self) -> int:
        """At once where more may lie there."""
        return 0 if self._full else PACE_MS

    async def run_once(self) -> Report:
        """Post what has been recorded since, and what was not taken before. Cancelling is safe: what is not finished comes again.

        Raises:
            BackendError: Redis is away; or the address is (`hook.unavailable`): what is held is tried again.
        """
        self._full = False
        renews = self._clock.monotonic_ms() - self._renewed_ms >= self._take_over_ms // 3
        for partition in self._partitions:
            if renews and any(entry[0] == partition for entry in self._left):
                await self._read(partition, "0", len(self._left))  # else others would take over what is held here
            if len(self._held) < MAX_HELD:
                await self._read(partition, self._after[partition], 1 if self._held else MAX_BATCHES)
        if renews:
            self._renewed_ms = self._clock.monotonic_ms()
        posted = await self._try_all()
        await self._finish()
        self._full &= not self._away
        if self._away_for_ms() >= AWAY_MS:
            raise BackendUnavailable(
                f"{self._address} takes no receipts: {len(self._held)} are held", code="hook.unavailable"
            )
        return {"posted": posted} if posted else {}

    async def _read(self, partition: int, after: str, most: int) -> None:
        noted = self._noted.get(partition)
        followed = await self._source.follow_events(
            partition, GROUP, self._reader, most, self._take_over_ms, after, noted
        )
        self._noted.pop(partition, None)
        await self._tell(partition, followed)
        for entry_id, batch in followed.batches:
            entry = (partition, entry_id)
            if entry in self._left:
                continue
            self._after[partition] = max(self._after[partition], entry_id, key=_place)
            posts = list(posts_of(partition, batch))
            self._left[entry] = len(posts)
            now_ms = self._clock.monotonic_ms()
            self._held += [_Held(post, entry, now_ms, taken=self.posted) for post in posts]
        self._full |= len(followed.batches) >= most or followed.trimmed is not None

    async def _tell(self, partition: int, followed: Followed) -> None:
        """Say what was gone before it could be posted: only then the group goes on behind it. What is held here is not gone."""
        held = {(partition, entry_id) for entry_id in followed.gone} & self._left.keys()
        self._only_here |= held
        missed = len(followed.gone) - len(held) + (followed.trimmed.count if followed.trimmed is not None else 0)
        if missed:
            self._log.warning("records were gone before they were posted", of=partition, batches=missed)
            self.missed += missed
        if followed.trimmed is not None:
            self._noted[partition] = followed.trimmed
        await self._source.finish_events(partition, GROUP, followed.gone)

    async def _try_all(self) -> int:
        """Try what is due; while the address is away a few of those that were tried the least. How many were taken."""
        now_ms = self._clock.monotonic_ms()
        due = sorted((one for one in self._held if one.next_ms <= now_ms), key=lambda one: one.tries)
        due = due[: MAX_AT_ONCE if self._away else MAX_A_RUN]
        before, self._in_a_row = self.posted, 0
        through = await asyncio.gather(*map(self._try, due))
        for one, is_through in zip(due, through, strict=True):
            if is_through:
                self._left[one.entry] -= 1
        gone = {id(one) for one, is_through in zip(due, through, strict=True) if is_through}
        self._held = [one for one in self._held if id(one) not in gone]
        taken = self.posted - before
        if taken and self._away:
            for one in self._held:  # it is back
                one.next_ms = now_ms
        if due:
            self._away_since_ms = None if gone else self._away_since_ms if self._away else now_ms
            self._away = not gone
        self._full |= len(due) == MAX_A_RUN
        return taken

    def _away_for_ms(self) -> int:
        return 0 if self._away_since_ms is None else self._clock.monotonic_ms() - self._away_since_ms

    async def _try(self, one: _Held) -> bool:
        """Whether it is through: taken, or given up."""
        try:
            async with self._places:
                if self._in_a_row >= MAX_IN_A_ROW:
                    return False
                status = await asyncio.to_thread(self._address.post, one.post)
            why = f"status {status}"
        except (OSError, http.client.HTTPException) as error:
            status, why = 0, type(error).__name__
        refused = 300 <= status < 500 and status not in {408, 429}  # again would be refused again
        self._in_a_row = 0 if refused or 200 <= status < 300 else self._in_a_row + 1
        if 200 <= status < 300:
            self.posted += 1
            return True
        one.tries += 1
        one.passed += self.posted > one.taken
        one.taken = self.posted
        if refused or one.passed >= MAX_TRIES:
            self._give_up(one, why)
            return True
        one.next_ms = self._clock.monotonic_ms() + min(FIRST_WAIT_MS << min(one.tries - 1, 10), MAX_WAIT_MS)
        return False

    def _give_up(self, one: _Held, why: str) -> None:
        self.given_up += 1
        self._log.warning("receipt not posted", of=why, hook=str(self._address), key=one.post.key, reason=why)

    async def _finish(self) -> None:
        done = [entry for entry, left in self._left.items() if left <= 0]
        for partition in sorted({partition for partition, _ in done}):
            await self._source.finish_events(partition, GROUP, [entry_id for of, entry_id in done if of == partition])
        for entry in done:
            del self._left[entry]
            self._only_here.discard(entry)

    async def close(self) -> None:
        """Leave the group: what is not finished goes to another worker, or waits for the next start. What only this one has is given up."""
        for one in self._held:
            if one.entry in self._only_here:
                self._give_up(one, "ended")
        for partition in self._partitions:
            try:
                await self._source.unfollow_events(partition, GROUP, self._reader)
            except BackendError as error:
                log.info("events left to others", extra={"error": error.code})
                return


def _place(entry_id: str) -> tuple[int, int]:
    return ids.stream_id(entry_id.encode())


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
