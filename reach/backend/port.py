"""The Backend protocol: one method is one atomic step. It moves bytes and decides nothing.

Moments are Unix ms of the backend's own clock (Redis TIME), durations ms. Every step may be run twice; its docstring says what the
second run does. Errors are `reach.errors.BackendUnavailable` (retry), `BackendFull` (retry later) and `BackendError` (a bug or a
hostile key); a step that raises has changed nothing, or its outcome is unknown and it is safe to run it again.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, Protocol

import msgspec

from reach.envelope.ledger import Head, Leg, LegState

Verdict = Literal["done", "skipped", "full", "gone", "changed", "error"]
SettleVerdict = Literal["done", "stale", "unknown"]


class WorkEntry(msgspec.Struct, frozen=True):
    """An entry that a router has read and not yet acknowledged."""

    kind: Literal["ingress", "again", "receipts"]
    partition: int
    stream: str  # the key
    id: str
    fields: dict[bytes, bytes]


class Answer(msgspec.Struct, frozen=True):
    """The part of a receipt that its maker knows; a script adds the rest from the record (`members`, leg, attempts, times).

    `core` is a JSON object (UTF-8) with status, code, output, error_message, schema, processing_host, confidence, partial, cost, via,
    retry_after_ms and no other member; `details` is a JSON object.
    """

    status: Literal["success", "failed", "retryable"]
    code: str
    core: str
    details: str = "{}"


class Plan(msgspec.Struct, frozen=True, omit_defaults=True):
    """What is to be done with one leg.

    deliver: append to `agent`'s inbox · delay: wait until `until_ms` · finish: end with `answer` (`dead`: and keep it as a dead letter) ·
    move: a queued leg goes to another agent · stay: a queued leg stays where it is.
    """

    act: Literal["deliver", "delay", "finish", "move", "stay"]
    agent: str = ""
    max_inbox: int = 0  # 0 = no bound
    wait_ms: int = 0  # delay: from now, by the clock of the backend
    answer: Answer | None = None
    dead: bool = False


class Send(msgspec.Struct, frozen=True):
    """An ingress entry and the decision for it: `plans[i]` is leg i. `reply_to` is "" for fire and forget.

    `notice`: a JSON object for the `routed` notice, sent where the message is new or a duplicate attaches; "" = none. The script
    replaces nothing in it but the member `round` that it appends.
    """

    entry: WorkEntry
    msg_id: str
    head: Head
    plans: tuple[Plan, ...]
    envelope: bytes
    reply_to: str = ""
    notice: str = ""


class Again(msgspec.Struct, frozen=True):
    """An entry of the internal door and the decision for it, made for a leg seen in `state` with `attempt`."""

    entry: WorkEntry
    msg_id: str
    leg: int
    hand: str
    state: LegState
    attempt: int
    plan: Plan
    #: raised timeouts for the agent that was chosen (0 = as they are)
    processing_ms: int = 0


class Refuse(msgspec.Struct, frozen=True):
    """An entry that is answered, acknowledged and deleted without a record. `receipt` is the whole JSON; "" mailbox = nobody to tell."""

    entry: WorkEntry
    mailbox: str = ""
    receipt: bytes = b""
    #: fields for the dead stream (m, e, r, h) when the entry is kept there, else empty
    dead: Mapping[str, bytes] = {}


Decision = Send | Again | Refuse


class RouteResult(msgspec.Struct, frozen=True):
    """What became of one decision. `hands[i]` is the id of leg i's inbox entry, "" where none was written."""

    verdict: Verdict
    hands: tuple[str, ...] = ()
    #: "" new message, else duplicate | conflict | tombstone | overloaded
    known: str = ""
    error: str = ""


class Record(msgspec.Struct, frozen=True):
    """A ledger record as `inspect` saw it. `receipts` has the terminal receipts as JSON for the legs that have ended."""

    msg_id: str
    head: Head
    legs: dict[int, Leg]
    #: from env:<msg_id> or the inbox entry of the leg that was asked for; b"" = lost or not asked for
    envelope: bytes = b""
    receipts: dict[int, bytes] = {}
    now_ms: int = 0


class Taken(msgspec.Struct, frozen=True):
    """A message that this instance now runs. The caller counts its deadline from `total_at_ms - now_ms` on its own monotonic clock."""

    partition: int
    lane: str
    hand: str
    msg_id: str
    leg: int
    attempt: int  # the number of this run, from 1
    envelope: bytes
    now_ms: int
    total_at_ms: int
    processing_ms: int


class TakeResult(msgspec.Struct, frozen=True):
    """`cursors` (per lane) are where the bell waits on. `gone`: a lane is missing; open the inbox and take again."""

    taken: tuple[Taken, ...]
    cursors: dict[str, str]
    gone: bool = False
    expired: int = 0


class Settlement(msgspec.Struct, frozen=True):
    """One answer to one hand. `instance` "" = applied by a router for an agent without scripts."""

    msg_id: str
    leg: int
    hand: str
    answer: Answer
    instance: str = ""
    #: >= 0: the return burns no attempt and waits so long (Retry(after), a graceful stop: 0); -1: an ordinary result
    wait_ms: int = -1


class DueEvent(msgspec.Struct, frozen=True):
    """What `due` did to one leg; becomes a hop record. what: expired | reclaimed | again | gone | overdue."""

    msg_id: str
    leg: int
    what: str
    agent: str
    instance: str
    attempt: int
    code: str


class DueReport(msgspec.Struct, frozen=True):
    """`next_at_ms`: when the next moment of this partition is due, 0 = none. `deadline_at_ms`: a caller's own message that goes on."""

    events: tuple[DueEvent, ...]
    more: bool
    next_at_ms: int
    now_ms: int
    grace_until_ms: int = 0
    deadline_at_ms: int = 0


class CancelResult(msgspec.Struct, frozen=True):
    """closed: legs that this call ended. what: cancelled | tombstone | ended | denied (another sender) | newer (a greater round)."""

    what: Literal["cancelled", "tombstone", "ended", "denied", "newer"]
    closed: int = 0


class MailEntry(msgspec.Struct, frozen=True):
    partition: int
    id: str
    kind: Literal["receipt", "notice", "hello"]
    data: bytes


class Snapshot(msgspec.Struct, frozen=True):
    """Everything that the capability index is built from. `agents` values are JSON with `v`; `cursor` is where `changes` goes on."""

    version: int
    cursor: str
    agents: dict[str, bytes]
    routes: dict[str, bytes]
    types: frozenset[str]
    meta: dict[str, str]


class Change(msgspec.Struct, frozen=True):
    """An entry of `changes`.

    `op`: agent (registered or changed; `data` = the registration) | gone | state (data = the beat) | route | type | meta.
    """

    id: str
    version: int
    op: str
    name: str
    data: bytes


class Pulse(msgspec.Struct, frozen=True):
    """One instance's last beat. `at_ms` by the clock of the backend; `beat` its JSON."""

    agent_id: str
    instance_id: str
    at_ms: int
    beat: bytes


class BeatResult(msgspec.Struct, frozen=True):
    """known False: no such registration (after FLUSHALL, or removed): register again."""

    known: bool
    now_ms: int


class RegisterResult(msgspec.Struct, frozen=True):
    """ok False: the stored registration is not the one that was read (`expected`): read it again and decide again."""

    ok: bool
    version: int


class Backend(Protocol):
    """Opened by URL: `reach.backend.open_backend(url, env=...)`. Safe for many tasks of ONE event loop; a thread opens its own."""

    env: str
    partitions: int
    durability: str  # memory | everysec | always | replicated:n, as the server is configured

    # ---------------------------------------------------------------- life
    async def open(self) -> None:
        """Connect, read `meta` (partitions) and the durability class. Raises BackendUnavailable."""
        ...

    async def close(self) -> None:
        """Close every connection; waits for none of the commands in flight. Twice is once."""
        ...

    async def now_ms(self) -> int: ...

    # ---------------------------------------------------------------- the sender's side
    async def submit(self, partition: int, lane: str, envelope: bytes) -> str:
        """XADD to ingress; returns the entry id. Acknowledged = accepted. Again = a duplicate, which dedup absorbs."""
        ...

    async def keep_mailbox(self, mailbox: str, partitions: Sequence[int], ttl_ms: int = 60_000) -> bool:
        """Create the mailbox where it is missing (a `hello` entry, MAXLEN ~ 1000) and renew its lifetime. True: one had to be made."""
        ...

    async def drop_mailbox(self, mailbox: str) -> None: ...

    async def read_mail(
        self, mailbox: str, cursors: Mapping[int, str], block_ms: int, max_entries: int = 200
    ) -> list[MailEntry]:
        """XREAD BLOCK behind `cursors` (partition -> last id seen, "0" first). Empty after block_ms. One reader per mailbox."""
        ...

    async def inspect(self, partition: int, msg_id: str, leg: int = -1, *, envelope: bool = False) -> Record | None:
        """Read a record: all legs (-1) or one; with the bytes where wanted. Read only. None: no record."""
        ...

    async def cancel(self, partition: int, msg_id: str, sender: str, round: int, tomb_ms: int) -> CancelResult:
        """End every open leg with one `cancelled` receipt, or leave a tombstone for max(tomb_ms, 60 s). Again: `ended` or `tombstone`."""
        ...

    # ---------------------------------------------------------------- the router's side
    async def read_work(
        self, worker: str, partitions: Sequence[int], max_entries: int, block_ms: int
    ) -> list[WorkEntry]:
        """XREADGROUP `>` over receipts, again and the ingress lanes (max_entries per stream). Missing groups are made at id 0."""
        ...

    async def own_work(self, worker: str, partition: int) -> list[WorkEntry]:
        """Entries already pending to this worker (id 0): replies that were swallowed on the way. Read after every lost connection."""
        ...

    async def claim_work(self, worker: str, partition: int, idle_ms: int, max_entries: int = 100) -> list[WorkEntry]:
        """Take over entries idle over `idle_ms` from anyone (XAUTOCLAIM). Entries whose body is gone are acknowledged."""
        ...

    async def route(self, partition: int, decisions: Sequence[Decision]) -> list[RouteResult]:
        """Apply a batch (at most 100, 1 MiB) and acknowledge its entries in the same step. Again: `skipped`."""
        ...

    async def finish_work(self, partition: int, entries: Iterable[WorkEntry]) -> None:
        """XACK and XDEL entries that need nothing more (receipts that were settled). Again: nothing."""
        ...

    async def due(self, partition: int, msg_id: str = "") -> DueReport:
        """Do what is due now, at most 100 messages. With msg_id: a caller's due, for its own message's total and ttl only, no tick."""
        ...

    # ---------------------------------------------------------------- the agent's side
    async def open_inbox(self, partition: int, agent_id: str) -> None:
        """Make the three lanes and their groups at id 0. Again: nothing."""
        ...

    async def close_inbox(self, partition: int, agent_id: str) -> bool:
        """Move undelivered and lease-over entries to `again`; delete the lanes when nothing is pending. False: something still is."""
        ...

    async def take(
        self, partition: int, agent_id: str, instance: str, free: int, held: Sequence[str] | None = None
    ) -> TakeResult:
        """Hand over at most `free` messages, lanes in order.

        `held` (after a lost connection): the hands that the caller still has; other entries pending to this instance come again,
        same hand, burning nothing.
        """
        ...

    async def ring(self, agent_id: str, cursors: Mapping[int, Mapping[str, str]], block_ms: int) -> bool:
        """The bell: wait until something lies behind the cursors (partition -> lane -> id). False after block_ms."""
        ...

    async def settle(self, partition: int, agent_id: str, settlements: Sequence[Settlement]) -> list[SettleVerdict]:
        """Write results and receipts, acknowledge and delete. Again by the one that closed it: `done`; anybody else: `stale`."""
        ...

    async def renew(self, partition: int, agent_id: str, instance: str, held: Mapping[str, Sequence[str]]) -> set[str]:
        """XCLAIM JUSTID for lane -> hands; returns those still held. One that is missing was lost or cancelled."""
        ...

    async def progress(self, partition: int, msg_id: str, leg: int, hand: str, notice: bytes | None) -> bool:
        """A sign of life of the handler, fenced by hand; with `notice` (JSON) also one into the mailboxes. False: stale."""
        ...

    # ---------------------------------------------------------------- registry
    async def send_control(self, entry: bytes) -> str:
        """XADD control c <json>."""
        ...

    async def read_control(self, worker: str, block_ms: int, claim_idle_ms: int = 5_000) -> list[tuple[str, bytes]]:
        """Control entries for this registrar (new ones, own pending, then entries idle over claim_idle_ms): (id, json)."""
        ...

    async def finish_control(self, entry_id: str, mailbox: str = "", notice: bytes = b"") -> None:
        """Answer in the mailbox (partition 0), then acknowledge and delete."""
        ...

    async def register(
        self,
        agent_id: str,
        registration: bytes,
        instance_id: str,
        beat: bytes,
        expected: bytes | None,
        types: Sequence[str] = (),
    ) -> RegisterResult:
        """Compare and set one registration (JSON without `v`; the script stores it with `"v":<n>`), first beat, types; one change entry.

        `registration` b"" removes it (a tombstone with gone_at stays 24 h). `expected`: the stored bytes that the caller read,
        None = absent.
        """
        ...

    async def registration(self, agent_id: str) -> tuple[bytes | None, dict[str, int]]:
        """The stored bytes (None = absent) and the last beat of each of its instances (instance_id -> ms)."""
        ...

    async def beat(self, agent_id: str, instance_id: str, beat: bytes) -> BeatResult:
        """Score = TIME. A change of `state` is also told through `changes`."""
        ...

    async def leave(self, agent_id: str, instance_id: str) -> bool:
        """Forget one instance's beats. True: it was the last one."""
        ...

    async def snapshot(self) -> Snapshot: ...

    async def changes(self, cursor: str, block_ms: int) -> list[Change]:
        """XREAD BLOCK behind cursor. A gap in `version` means: take a new snapshot."""
        ...

    async def pulses(self, since_ms: int) -> tuple[int, list[Pulse]]:
        """(now, beats at or after since_ms)."""
        ...

    async def overdue_pulses(self, before_ms: int) -> list[tuple[str, str, int]]:
        """(agent_id, instance_id, last beat) for instances silent since before `before_ms`."""
        ...

    async def set_meta(self, kind: Literal["meta", "routes", "types"], name: str, value: bytes | None) -> None:
        """Admin: write or remove (None) one setting, policy or type, and tell it through `changes`."""
        ...

    async def lock(self, service: str, owner: str, ttl_ms: int) -> bool:
        """True when `owner` has or gets the lease of a service."""
        ...

    # ---------------------------------------------------------------- records
    async def record(self, partition: int, batch: bytes) -> None:
        """XADD events b <batch: a JSON array> v 1, bounded by length and age."""
        ...

    async def read_events(
        self, partition: int, cursor: str, block_ms: int, max_entries: int = 100
    ) -> list[tuple[str, bytes]]: ...

    async def dead_letters(
        self, partition: int, after: str = "-", max_entries: int = 100
    ) -> list[tuple[str, dict[bytes, bytes]]]: ...
