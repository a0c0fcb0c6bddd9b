"""Questions to the hop records of an env: what Redis keeps (a day) and, where one is named, what an event store keeps, each record once."""

import re
from collections.abc import AsyncIterator, Iterable, Sequence
from typing import Any

import msgspec

from reach.envelope.policy_digest import policy_digest
from reach.envelope.privacy import Privacy, privacy_of
from reach.envelope.scan import is_json, is_utf8
from reach.events.decided import Decisions, decisions_of
from reach.events.fields import text_of
from reach.events.opening import open_store
from reach.events.reading import Recorded, batches_from, batches_since, events_in, records_in
from reach.events.recordings import Recording, recordings_in, with_ledger
from reach.events.store import DAY_US, LAST_US, MAX_FOUND, Event, EventStore, Query, batch_name, fits, record_of
from reach.events.traced import Trace, since_of, trace_of
from reach.tracing.record import LOST_PROCESS, TRIMMED

#: What JSON writes as it is.
_PLAIN = re.compile(r"[A-Za-z0-9._:\-]+").fullmatch
MAX_ROUNDS = 4
#: A gap is told after what it stands for, and before it what was recorded.
GAP_US = 5_000_000
#: A gap ends when it is found: half a minute after the last word of a process, and later where nobody could look.
FOUND_LATE_US = DAY_US
#: What of a conversation that has ended may follow yet: what was sent without waiting for it.
AFTER_US = 2_000_000

_identity = msgspec.json.Encoder(order="deterministic").encode


class Events:
    """The records of an env. Nothing is changed, and nobody waits for whoever reads here.

    Args:
        source: A backend that is open.
        store: What an archiver fills (`reach.events.opening.open_store`); None: what Redis has let go is not found.
    """

    def __init__(self, source: Recorded, store: EventStore | None = None) -> None:
        self._source, self._store = source, store

    def with_store(self, url: str) -> "Events":
        """The same questions, also to this event store: `sqlite:<folder>`, `jsonl:<folder>`, `es+http://...`. `close` it in the end.

        Raises:
            ConfigError: No store is called so.
        """
        return Events(self._source, open_store(url))

    async def close(self) -> None:
        """Let go of the event store. Twice is once; the connection to Redis is the client's own."""
        if self._store is not None:
            await self._store.close()

    async def now_us(self) -> int:
        """This moment by the clock of Redis, which all records go by.

        Raises:
            BackendError: It cannot be asked.
        """
        return await self._source.now_ms() * 1000

    async def find(self, query: Query | None = None) -> list[dict[str, Any]]:
        """The newest records that fit (at most `query.max_found`), oldest first.

        Raises:
            BackendError: Redis or the store (StoreUnavailable) cannot be asked.
        """
        query = query or Query()
        found = Found(query.max_found)
        if self._store is not None:
            found.take(await self._store.find(query))
        async for batch in batches_since(self._source, query.since_us):
            found.take(record_of(event.body) for event in events_in(*batch) if fits(event, query))
        return found.records()

    async def pages(self, query: Query | None = None) -> AsyncIterator[list[dict[str, Any]]]:
        """All records that fit, in pages of at most `query.max_found`: the newest page first, each with its oldest record first.

        Raises:
            BackendError: As `find`.
        """
        query = query or Query()
        told: set[bytes] = set()
        while page := await self.find(query):
            new = [record for record in page if _identity(record) not in told]
            if new:
                yield new
            oldest_us = moment_of(page[0])
            if len(page) < query.max_found or oldest_us <= query.since_us:
                return
            # Those of the same moment come again, so that none is lost between two pages; where a whole page has one moment, it is over.
            until_us = oldest_us + 1 if oldest_us < moment_of(page[-1]) else oldest_us
            told = {_identity(record) for record in page}
            query = msgspec.structs.replace(query, until_us=until_us)

    async def follow(self, query: Query | None = None) -> AsyncIterator[dict[str, Any]]:
        """The records that fit as they come, for ever, since `query.since_us`, or from now on where that is 0. Of Redis alone.

        Raises:
            BackendError: Redis cannot be asked now.
        """
        query = query or Query()
        if not query.since_us:
            query = msgspec.structs.replace(query, since_us=await self._source.now_ms() * 1000)
        async for batches in batches_from(self._source, query.since_us):
            events = [event for batch in batches for event in events_in(*batch) if fits(event, query)]
            for event in sorted(events, key=lambda event: event.at_us):
                yield record_of(event.body)

    async def records_of(self, name: str, *, whole: bool = False) -> "Collected":
        """All records of a conversation, or of the one that a message belongs to, and the gaps meanwhile. `name`: correlation id or msg_id.

        `whole`: with what is kept of envelopes and receipts; else only what says who has sent a message, and in answer to what.

        Raises:
            BackendError: As `find`.
        """
        collected = Collected(name, whole=whole)
        for _ in range(MAX_ROUNDS):
            known = len(collected.names)
            if self._store is not None:
                await self._ask_store(collected)
            async for batch in batches_since(self._source):
                collected.take_batch(*batch)
            if len(collected.names) == known:
                break
        if self._store is not None and collected.found:
            since_us, until_us = collected.span()
            gaps = Query(fields={"point": ("gap",)}, since_us=since_us, until_us=until_us)
            collected.gaps.take(await self._store.find(gaps))
            late: dict[str, tuple[str, ...]] = {"point": ("gap",), "code": (LOST_PROCESS, TRIMMED)}
            lost = Query(fields=late, since_us=since_us, until_us=until_us + FOUND_LATE_US)
            collected.gaps.take(one for one in await self._store.find(lost) if since_of(one) < until_us)
        return collected

    async def trace(self, name: str) -> Trace | None:
        """The conversation that `name` is, or that this message belongs to, as a tree; None: nothing is recorded of it.

        Raises:
            BackendError: As `find`.
        """
        return (await self.records_of(name)).trace()

    async def explain(self, msg_id: str) -> Decisions | None:
        """Why a message went where it went: each decision with all who were looked at, and each run; None: nothing is recorded of it.

        Raises:
            BackendError: As `find`.
        """
        found = decisions_of(msg_id, (await self.records_of(msg_id)).found.records())
        if found is None:
            return None
        policy = (await self._source.snapshot()).routes.get(found.pattern)
        return (
            msgspec.structs.replace(found, policy=msgspec.Raw(policy), policy_digest=policy_digest(policy))
            if policy and is_utf8(policy) and is_json(policy)
            else found
        )

    async def recordings(self, *, correlation_ids: Sequence[str] = (), msg_ids: Sequence[str] = ()) -> list[Recording]:
        """Messages as they were sent, in the order in which they came, each once: from records, else from what the ledger remembers.

        From the ledger comes only what the setting `privacy` would let records keep now.

        Args:
            correlation_ids: Of these conversations what came from outside: what no other message of it has brought about.
            msg_ids: These messages.

        Raises:
            BackendError: As `find`.
        """
        found: dict[str, Recording] = {}
        for name in correlation_ids:
            records = (await self.records_of(name, whole=True)).found.records()
            found |= {one.msg_id: one for one in recordings_in(name, records, roots=True)}
        for name in msg_ids:
            records = (await self.records_of(name, whole=True)).found.records()
            found |= {one.msg_id: one for one in recordings_in(name, records, roots=False) if one.msg_id == name}
        privacy = privacy_of((await self._source.snapshot()).meta, self._source.env)
        complete = [await self._remembered(one, privacy) for one in found.values()]
        return sorted(complete, key=lambda one: one.at_us)

    async def _remembered(self, recording: Recording, privacy: Privacy) -> Recording:
        for partition in range(self._source.partitions):
            if recording.envelope is not None and recording.answers:
                break
            record = await self._source.inspect(partition, recording.msg_id, envelope=True)
            if record is not None:
                recording = with_ledger(recording, record.envelope, record.receipts, privacy)
        return recording

    async def follow_trace(self, name: str) -> AsyncIterator[Trace]:
        """The same, now (where anything is recorded) and each time that something has happened, until all its messages have ended.

        What a handler has sent without waiting for it may come after the end of its run: for two seconds something may follow.

        Raises:
            BackendError: As `find`.
        """
        since_us = await self._source.now_ms() * 1000
        collected = await self.records_of(name)
        found = collected.trace()
        if found is not None:
            yield found
        async for batches in batches_from(self._source, since_us):
            if sum(collected.take_batch(*batch) for batch in batches):
                found = collected.trace()
                if found is not None:
                    yield found
            elif found is not None and found.ended and await self.now_us() - found.ended_at_us >= AFTER_US:
                return

    async def _ask_store(self, collected: "Collected") -> None:
        assert self._store is not None
        names = tuple(sorted(collected.names))
        for field in ("correlation_id", "msg_id"):
            for start in range(0, len(names), 500):
                some = Query(fields={field: names[start : start + 500]}, max_found=MAX_FOUND)
                collected.take(await self._store.find(some))


class Found:
    """The newest records, each once, however often and from wherever they come."""

    def __init__(self, max_found: int = MAX_FOUND) -> None:
        self.max_found = max_found
        self.cut = False
        self._by_identity: dict[bytes, dict[str, Any]] = {}

    def __len__(self) -> int:
        return len(self._by_identity)

    def take(self, records: Iterable[dict[str, Any]]) -> int:
        """How many of them are new."""
        before = len(self._by_identity)
        for record in records:
            self._by_identity.setdefault(_identity(record), record)
            if len(self._by_identity) >= 2 * self.max_found + 1_000:
                before -= self._drop_oldest()
        return len(self._by_identity) - before

    def records(self) -> list[dict[str, Any]]:
        """Oldest first."""
        found = sorted(self._by_identity.values(), key=moment_of)
        self.cut |= len(found) > self.max_found
        return found[-self.max_found :]

    def _drop_oldest(self) -> int:
        """Now and then, so that what is held stays bounded; how many went."""
        self.cut = True
        by_age = sorted(self._by_identity.items(), key=lambda pair: moment_of(pair[1]))
        gone = len(by_age) - self.max_found
        self._by_identity = dict(by_age[gone:])
        return gone


class Collected:
    """The records of one conversation, and the names that it is known by. `whole`: with the envelopes and receipts in them."""

    def __init__(self, name: str, *, whole: bool = False) -> None:
        self.name, self._whole = name, whole
        self.names = {name}
        self.found = Found()
        self.gaps = Found(1_000)
        self._whole_batches: set[str] = set()  # of which each record belongs to it: there is nothing more in them

    def take(self, records: Iterable[dict[str, Any]]) -> bool:
        """Whether one of them is new and belongs to it. A conversation has all its messages, a message its conversation."""
        return self.found.take(self._own(records)) > 0

    def _own(self, records: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
        own = [one for one in records if not self.names.isdisjoint(_names_in(one))]
        for record in own:
            if len(self.names) < MAX_FOUND:
                self.names |= _names_in(record)
        return own if self._whole else [_slim(one) for one in own]

    def take_batch(self, partition: int, batch: bytes) -> bool:
        """The same, of a batch; one in which no name stands, or nothing more, is not read."""
        if b'"gap"' in batch:
            self.gaps.take(record_of(event.body) for event in events_in(partition, batch) if _is_gap(event))
        if len(self.names) <= 8 and all(_PLAIN(name) and name.encode() not in batch for name in self.names):
            return False
        of_batch = batch_name(partition, batch)
        if of_batch in self._whole_batches:
            return False
        records = records_in(partition, batch)
        own = self._own(records)
        if len(own) == len(records):
            self._whole_batches.add(of_batch)
        return self.found.take(own) > 0

    def span(self) -> tuple[int, int]:
        """The time in which a gap may have hidden some of them, us."""
        moments = [moment_of(record) for record in self.found.records()]
        return max(min(moments) - GAP_US, 0), max(moments) + GAP_US

    def trace(self) -> Trace | None:
        """The tree; None: there is nothing."""
        if not self.found:
            return None
        since_us, until_us = self.span()
        gaps = [gap for gap in self.gaps.records() if moment_of(gap) >= since_us and since_of(gap) < until_us]
        return trace_of(self.name, [*self.found.records(), *gaps], cut=self.found.cut)


def moment_of(record: dict[str, Any]) -> int:
    """When, us; 0 where it does not say, or names a moment that no date has."""
    at_us = record.get("at_us")
    return at_us if type(at_us) is int and 0 <= at_us <= LAST_US else 0


def _names_in(record: dict[str, Any]) -> set[str]:
    """What it says that it belongs to, where that is text: anybody may have written it."""
    return {text_of(record, "correlation_id"), text_of(record, "msg_id")} - {""}


def _slim(record: dict[str, Any]) -> dict[str, Any]:
    """Without contents: a long conversation may hold much of them."""
    if not record.keys() & {"envelope", "receipt"}:
        return record
    slim = {name: value for name, value in record.items() if name not in {"envelope", "receipt"}}
    envelope = record.get("envelope")
    if isinstance(envelope, dict):
        slim["envelope"] = {name: envelope[name] for name in ("source", "in_reply_to", "traces") if name in envelope}
    return slim


def _is_gap(event: Event) -> bool:
    return event.fields.get("point") == "gap"
