"""The Backend protocol: one method is one atomic step. It moves bytes and decides nothing.

Moments are Unix ms of the backend's own clock (Redis TIME), durations ms. Every step may be run twice; its docstring says what the
second run does. Errors are `reach.errors.BackendUnavailable` (retry), `BackendFull` (retry later) and `BackendError` (a bug or a
hostile key); a step that raises has changed nothing, or its outcome is unknown and it is safe to run it again.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from reach.backend.demand_port import DemandPort
from reach.backend.depth_port import DepthPort
from reach.backend.followed import Followed, Trimmed
from reach.backend.hinting import Hint
from reach.backend.recorders_port import RecordersPort
from reach.backend.registry_port import RegistryPort
from reach.backend.schema_port import SchemaPort
from reach.backend.spent import Spent, Uncounted
from reach.backend.steps import (
    Again,
    Answer,
    AnswerVerdict,
    BeatResult,
    CancelResult,
    Change,
    Circuits,
    Decision,
    DueEvent,
    DueReport,
    Guard,
    LastBeat,
    MailEntry,
    Meeting,
    Met,
    Over,
    Parking,
    Plan,
    Record,
    Refuse,
    RegisterResult,
    RouteResult,
    Send,
    Settlement,
    SettleVerdict,
    Snapshot,
    Taken,
    TakeResult,
    Turn,
    Verdict,
    WorkEntry,
)

__all__ = [
    "Again",
    "Answer",
    "AnswerVerdict",
    "Backend",
    "BeatResult",
    "CancelResult",
    "Change",
    "Circuits",
    "Decision",
    "DueEvent",
    "DueReport",
    "Followed",
    "Guard",
    "Hint",
    "LastBeat",
    "MailEntry",
    "Meeting",
    "Met",
    "Over",
    "Parking",
    "Plan",
    "Record",
    "Refuse",
    "RegisterResult",
    "RouteResult",
    "Send",
    "SettleVerdict",
    "Settlement",
    "Snapshot",
    "TakeResult",
    "Taken",
    "Trimmed",
    "Turn",
    "Verdict",
    "WorkEntry",
]


class Backend(RegistryPort, SchemaPort, DemandPort, RecordersPort, DepthPort, Protocol):
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
        """XADD to ingress; returns the entry id. Acknowledged = accepted. Again = a duplicate, which dedup absorbs.

        Raises IngressFull where `max_ingress` entries lie there: nothing was accepted.
        """
        ...

    async def requeue(self, partition: int, lane: str, envelope: bytes, letter: str) -> bool:
        """As `submit`, and the dead letter with this entry id goes in the same step. Again, or without such a letter: False, nothing sent.

        Raises IngressFull as `submit` does: the letter stays.
        """
        ...

    async def keep_mailbox(
        self,
        mailbox: str,
        partitions: Sequence[int],
        ttl_ms: int = 60_000,
        read: Mapping[int, str] | None = None,
    ) -> bool:
        """Create the mailbox where it is missing (a `hello` entry), else renew its lifetime. True: one had to be made.

        `read` (partition -> id of the last entry that its reader has handled): what lies before it is trimmed.
        """
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
        """End every open leg with one `cancelled` receipt, or leave a tombstone for max(tomb_ms, 60 s), the sender's own.

        A record that a greater round could open again keeps the cancel of that round, for at least as long, as a tombstone would.
        Again: `ended` or `tombstone`.
        """
        ...

    async def answer(
        self, partition: int, msg_id: str, sender: str, leg: int, hand: str, value: bytes
    ) -> AnswerVerdict:
        """Answer what a parked leg asks: it is returned for a new decision, burning nothing, with what was left of its total.

        `hand`: as the notice `input_required` gave it. `value`: JSON, at most 64 KiB. stale: that question is not open, or not any more;
        denied: the message is another sender's. Again: `stale`.
        """
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

    async def drop_consumer(self, consumer: str, partitions: Sequence[int], agent_id: str = "") -> None:
        """Delete a consumer that goes, where nothing is pending to it. Again: nothing.

        An instance's in the lanes of its agent; without an agent a worker's at the doors, and (beside partition 0) at control.
        """
        ...

    async def sweep(self, partition: int, agent_id: str = "", idle_ms: int = 600_000) -> int:
        """Delete the consumers there (see `drop_consumer`) that were not seen for `idle_ms` and hold nothing; how many they were."""
        ...

    async def open_doors(self, partition: int) -> int:
        """Mend what hinders anybody to write into the doors there, and (beside partition 0) into control; what lies in them stays.

        A lost stream or group is made, another type freed, ids of the far future wound back. How many were not just missing.
        """
        ...

    async def due(self, partition: int, msg_id: str = "") -> DueReport:
        """Do what is due now, at most 100 messages. With msg_id: a caller's due, for its own message's total and ttl only, no tick."""
        ...

    async def circuits(self, partition: int) -> Circuits:
        """Whose circuit is not closed there, and of whom the env has been told so. Read only."""
        ...

    async def worker_silence_ms(self, partition: int) -> int | None:
        """How long ago a router last did what was due there; negative after a step back of the clock. None: never. Read only."""
        ...

    # ---------------------------------------------------------------- the agent's side
    async def open_inbox(self, partition: int, agent_id: str) -> bool:
        """Make the three lanes and their groups at id 0. True: one had to be made. Again: False."""
        ...

    async def close_inbox(self, partition: int, agent_id: str) -> bool:
        """Move undelivered and lease-over entries to `again`; delete the lanes when nothing is pending. False: something still is."""
        ...

    async def take(
        self,
        partition: int,
        agent_id: str,
        instance: str,
        free: int,
        held: Sequence[tuple[str, str]] | None = None,
        *,
        turn: int = 0,
        only: str = "",
    ) -> TakeResult:
        """Hand over at most `free` messages, 100, or about 1 MiB of envelopes (but one of any size), lanes in order.

        `held` (after a lost connection): (lane, hand) of what the caller still has; other entries pending to this instance come
        again, same hand, burning nothing. `turn`: how many messages this instance has been given before; every eighth is looked for in
        the lowest lane first, so that no lane waits for ever. `only`: of this lane alone.
        """
        ...

    async def waiting(self, agent_id: str) -> dict[str, set[int]]:
        """Lane -> the partitions where something lies that nobody has taken, or may lie. A look at one moment, which promises nothing."""
        ...

    async def ring(self, agent_id: str, cursors: Mapping[int, Mapping[str, str]], block_ms: int) -> bool:
        """The bell: wait until something lies behind the cursors (partition -> lane -> id). False after block_ms."""
        ...

    async def hear(self, agent_id: str, block_ms: int) -> list[Hint]:
        """What `cancel` took out of this agent's inboxes, at most 1,000; empty after block_ms. One listener per backend and agent.

        What was said before the first call, or while there was no connection, is lost: `renew` says the same, later.
        """
        ...

    async def settle(self, partition: int, agent_id: str, settlements: Sequence[Settlement]) -> list[SettleVerdict]:
        """Write results and receipts, acknowledge and delete. Again by the one that closed it: `done`; anybody else: `stale`."""
        ...

    async def park(self, partition: int, agent_id: str, parking: Parking) -> SettleVerdict:
        """Give up a message until its callers have answered: nobody holds it, its total stands still, and they are told what is asked.

        Fenced as `settle`. Raises BackendError where the prompt or the state is no JSON value or too large, or the message has asked too
        much. Again, with the same hand: `done`, also after the answer until it is handed over anew.
        """
        ...

    async def renew(self, partition: int, agent_id: str, instance: str, held: Mapping[str, Sequence[str]]) -> set[str]:
        """Renew the leases of lane -> hands; returns those still held. One that is missing was lost, given to another or cancelled."""
        ...

    async def progress(self, partition: int, msg_id: str, leg: int, hand: str, notice: bytes | None) -> bool:
        """A sign of life of the handler, fenced by hand; with `notice` (JSON) also one into the mailboxes. False: stale."""
        ...

    async def once_take(
        self, partition: int, msg_id: str, leg: int, hand: str, name: str, owner: str, lease_ms: int
    ) -> Guard:
        """Ask for the guard of one effect, which only the leg's present holder gets. Again by its owner: renewed for `lease_ms`."""
        ...

    async def once_end(self, partition: int, msg_id: str, name: str, owner: str, value: bytes) -> bool:
        """Write the result of the effect into its guard, or (b"") free it. False: another run has it. Again: the same answer."""
        ...

    # ---------------------------------------------------------------- conversations
    async def converse(self, turns: Sequence[Turn], max_pair_rate: int, max_same_content: int) -> list[Over]:
        """Count messages in their conversations, each once for its rounds; one that is too much of something is not counted. 0: no bound.

        A pair and a content count one more only where the message lies deeper than the last one that counted, the pair within a minute.
        Again: nothing is over for what is counted.
        """
        ...

    async def spend(self, conversation: str, run: str, cost: int, tokens: int, of: Uncounted | None = None) -> bool:
        """Add what a run has used (cost in millionths) to its conversation, with a message that nobody counted. False: counted already."""
        ...

    async def used_in(self, conversation: str) -> Spent | None:
        """What is counted of a conversation; None: nothing, or it is over an hour ago."""
        ...

    async def meet(self, meetings: Sequence[Meeting]) -> None:
        """Write down whom sources and their conversations have met, for an hour. Again: the later moment counts."""
        ...

    async def met(self, asked: Sequence[tuple[str, str]]) -> list[list[Met]]:
        """For each source and (stamp of a) conversation whom they have met within the last hour, the longest ago first."""
        ...

    # ---------------------------------------------------------------- records
    async def record(self, partition: int, batch: bytes) -> None:
        """XADD events b <batch: a JSON array> v 1, bounded by length and age."""
        ...

    async def read_events(
        self, partition: int, cursor: str, block_ms: int, max_entries: int = 100
    ) -> list[tuple[str, bytes]]: ...

    async def follow_events(
        self,
        partition: int,
        group: str,
        reader: str,
        max_batches: int = 100,
        idle_ms: int = 30_000,
        after: str = "0",
        noted: Trimmed | None = None,
    ) -> Followed:
        """The next batches of a group that has them all once: what is not finished, what another left for `idle_ms`, then new ones.

        Waits for nothing. The group begins with the oldest batch that there is. Again: the same batches, until they are finished. Who keeps
        some unfinished for a while gives the last entry that it was given as `after`, and is given what lies behind it. What was trimmed
        unread is told, and nothing new given, until somebody says that it is `noted`: then the group goes on behind it.
        """
        ...

    async def finish_events(self, partition: int, group: str, entry_ids: Sequence[str]) -> None:
        """XACK: this group is through with them, batches and those that are gone. Again: nothing."""
        ...

    async def unfollow_events(self, partition: int, group: str, reader: str) -> None:
        """Delete a reader that goes ("": all there are), where it has finished everything. Again: nothing."""
        ...

    async def dead_letters(
        self, partition: int, after: str = "-", max_entries: int = 100
    ) -> list[tuple[str, dict[bytes, bytes]]]: ...

    async def drop_dead(self, partition: int, entry_ids: Sequence[str]) -> int:
        """XDEL dead letters; how many of them were still there. Again: 0."""
        ...
