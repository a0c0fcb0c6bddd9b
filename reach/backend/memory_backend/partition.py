"""One partition during one step: its keys, its moment, and the few writes that all steps share."""

from collections.abc import Iterable, Iterator

from reach.backend.bounds import MAX_MAIL, Bounds, bounds_of
from reach.backend.keys import GROUP_AGENT, GROUP_ROUTERS, LANES, KeySpace
from reach.backend.memory_backend.store import MessageRecord, Store, WrongType
from reach.backend.memory_backend.streams import BadId, Fields, Group, Stream
from reach.envelope.ledger import Head, Leg, ends_at_ms

LARGE_BYTES = 64 * 1024


class Partition:
    """What a script has: the key prefix, and TIME, read once."""

    __slots__ = ("acknowledged", "keys", "now_ms", "number", "opened", "store")

    def __init__(self, store: Store, keys: KeySpace, number: int) -> None:
        self.store = store
        self.keys = keys
        self.number = number
        self.now_ms = store.now_ms()
        self.acknowledged = False  # whether the decision in hand has been
        self.opened: MessageRecord | None = None  # by it

    # ---------------------------------------------------------------- the record

    def load(self, msg_id: str) -> MessageRecord | None:
        """The record; a key of another type counts as none, and the next send makes it anew."""
        try:
            stored = self.store.record(self.keys.message(self.number, msg_id))
        except WrongType:
            return None
        # A copy: what a step does not save has not happened.
        return MessageRecord(stored.head, dict(stored.legs)) if stored is not None else None

    def save(self, msg_id: str, record: MessageRecord) -> None:
        """Write the record; its lifetime counts from its deadline, or from now where that is past."""
        key = self.keys.message(self.number, msg_id)
        self.store.put(key, record)
        self.store.expire_at(key, self.expires_at_ms(record.head))
        line = self.keys.line(self.number, record.head.line)
        in_line = record.head.line and record.head.scope == "one"
        until_ms = self.store.expires_at_ms(line) if in_line else None
        if until_ms and until_ms < self.expires_at_ms(record.head):  # what has no end, as a stranger's, keeps none
            self.store.expire_at(line, self.expires_at_ms(record.head))

    def expires_at_ms(self, head: Head) -> int:
        """The deadline, or now where that is past, plus the dedup window: 2 x total, 60 s to 10 min."""
        window_ms = min(max(2 * head.total_ms, 60_000), 600_000)
        return max(head.total_at_ms, head.latest_at_ms, self.now_ms) + window_ms

    def arm(self, msg_id: str, record: MessageRecord, number: int, at_ms: int) -> None:
        """Let `due` look at the leg at `at_ms`, or earlier where its ttl or total ends (ZADD LT)."""
        at_ms = next_moment(record.head, record.legs[number], at_ms)
        record.change(number, due_at_ms=at_ms)
        due = self.due_moments()
        due[msg_id] = min(at_ms, due.get(msg_id, at_ms))

    def due_moments(self) -> dict[str, int]:
        """The zset `due`, made anew where something else lies there."""
        key = self.keys.due(self.number)
        self.store.clear_wrong(key, "zset")
        return self.store.make_zset(key)

    def disarm(self, msg_id: str) -> None:
        """Nothing more is due for the message."""
        key = self.keys.due(self.number)
        moments = self.store.zset(key) if self.store.type_of(key) == "zset" else None
        if moments is not None:
            moments.pop(msg_id, None)
            self.store.drop_empty(key)

    # ---------------------------------------------------------------- the envelope's bytes

    def keep_envelope(self, msg_id: str, head: Head, envelope: bytes) -> None:
        """Put the bytes into env:<msg_id>, where they live as long as the record."""
        key = self.keys.envelope(self.number, msg_id)
        self.store.put(key, envelope)
        self.store.expire_at(key, self.expires_at_ms(head))

    def is_large(self, record: MessageRecord, envelope: bytes) -> bool:
        """A broadcast whose bytes lie once in env, and not in every inbox."""
        return record.head.scope == "all" and len(envelope) * record.head.legs > LARGE_BYTES

    def kept_envelope(self, msg_id: str) -> bytes | None:
        """The bytes in env:<msg_id>."""
        try:
            return self.store.string(self.keys.envelope(self.number, msg_id))
        except WrongType:
            return None

    def envelope_of(self, msg_id: str, record: MessageRecord, number: int) -> bytes | None:
        """The bytes, from env or from the inbox entry of this leg; None: they are lost."""
        kept = self.kept_envelope(msg_id)
        if kept is not None:
            return kept
        entry = self.inbox_entry(record, number)
        return entry.get(b"e") if entry is not None else None

    def drop_envelope(self, msg_id: str) -> None:
        self.store.delete(self.keys.envelope(self.number, msg_id))

    def forget_envelope(self, msg_id: str, head: Head) -> None:
        """Nobody needs the bytes any more, but who observes a large broadcast: they stay as long as it might be handed over."""
        if head.shows_large:
            self.store.expire_at(self.keys.envelope(self.number, msg_id), head.total_at_ms)
        else:
            self.drop_envelope(msg_id)

    # ---------------------------------------------------------------- inboxes

    def inbox(self, agent: str, lane: str) -> Stream | None:
        """The lane's stream; None where it is missing or of the wrong type."""
        try:
            return self.store.stream(self.keys.inbox(self.number, agent, lane))
        except WrongType:
            return None

    def readers(self, agent: str, lane: str) -> Group | None:
        """The group of the agent's instances on one lane; None: NOGROUP."""
        stream = self.inbox(agent, lane)
        return stream.group(GROUP_AGENT) if stream is not None else None

    def make_readable(self, agent: str, lane: str) -> bool:
        """Make the group of a lane that has lost it, at its start so that nothing in it is missed. False: there is no such lane."""
        stream = self.inbox(agent, lane)
        if stream is None:
            return False
        stream.make_group(GROUP_AGENT)
        return True

    def untaken(self, agent: str, lane: str) -> int:
        """How much lies in a lane that nobody has been given yet."""
        stream, group = self.inbox(agent, lane), self.readers(agent, lane)
        return (len(stream) if stream is not None else 0) - (len(group.pending) if group is not None else 0)

    def hold(self, agent: str, lane: str, instance: str, hands: Iterable[str]) -> list[str]:
        """XCLAIM FORCE JUSTID: hands whose entry lies in the lane are pending to this instance from now, whatever its group knew."""
        stream = self.inbox(agent, lane)
        if stream is None:
            return []
        return stream.make_group(GROUP_AGENT).claim(instance, hands, self.now_ms, force=True)

    def inbox_entry(self, record: MessageRecord, number: int) -> Fields | None:
        """The inbox entry that the leg's hand names."""
        leg = record.legs[number]
        if not leg.agent or leg.hand == "0":
            return None
        stream = self.inbox(leg.agent, record.head.lane)
        return stream.get(leg.hand) if stream is not None else None

    def append_inbox(self, agent: str, lane: str, fields: Fields) -> str | None:
        """XADD to a lane; None where it is missing, of the wrong type, or takes no more ids."""
        if self.inbox(agent, lane) is None:
            return None
        try:
            return self.store.append(self.keys.inbox(self.number, agent, lane), fields, make=False)
        except BadId:
            return None

    def discard(self, agent: str, lane: str, hand: str) -> None:
        """XACK and XDEL one inbox entry."""
        group = self.readers(agent, lane)
        if group is not None:
            group.ack(hand)
        stream = self.inbox(agent, lane)
        if stream is not None:
            stream.delete([hand])

    def lanes(self, agent: str) -> Iterator[tuple[str, str]]:
        """(lane, key) in the order of service."""
        return ((lane, self.keys.inbox(self.number, agent, lane)) for lane in LANES)

    # ---------------------------------------------------------------- doors, mailboxes, dead letters

    def acknowledge(self, stream_key: str, entry_id: str) -> bool:
        """XACK of a door's entry. False: another router has done it."""
        stream = self.store.stream(stream_key)
        group = stream.group(GROUP_ROUTERS) if stream is not None else None
        self.acknowledged = group is not None and group.ack(entry_id)
        return self.acknowledged

    def append_again(self, msg_id: str, number: int, hand: str) -> None:
        """Ask a router for a new decision."""
        self._append(
            self.keys.again(self.number), {b"m": msg_id.encode(), b"l": str(number).encode(), b"h": hand.encode()}
        )

    def append_untold(self, msg_id: str, number: int, hand: str, told: str) -> None:
        """Tell the routers what nobody records who was there."""
        fields = {b"m": msg_id.encode(), b"l": str(number).encode(), b"h": hand.encode(), b"t": told.encode()}
        self._append(self.keys.receipts(self.number), fields)

    def post(self, mailbox: str, field: bytes, data: bytes) -> None:
        """Write into a mailbox if it is there. One that is gone or of the wrong type stops nothing: the ledger has the receipt."""
        try:
            self.store.append(
                self.keys.mail(self.number, mailbox), {field: data}, make=False, mend=False, max_entries=MAX_MAIL
            )
        except (WrongType, BadId):
            return

    def bury(self, fields: Fields) -> str:
        """Keep a dead letter (m, e, r, h); its entry id."""
        return self._append(self.keys.dead(self.number), fields, max_entries=bounds(self.store, self.keys).max_dead)

    def _append(self, key: str, fields: Fields, max_entries: int = 0) -> str:
        self.store.clear_wrong(key, "stream")
        try:
            entry_id = self.store.append(key, fields, max_entries=max_entries)
        except BadId:  # behind the last possible id there is none: the stream is made anew
            self.store.delete(key)
            entry_id = self.store.append(key, fields)
        assert entry_id is not None  # only NOMKSTREAM answers None
        return entry_id


def bounds(store: Store, keys: KeySpace) -> Bounds:
    """What `meta` says about how much is kept; a key of another type says nothing."""
    meta = store.hash(keys.meta()) if store.type_of(keys.meta()) == "hash" else None
    return bounds_of(meta or {})


def next_moment(head: Head, leg: Leg, at_ms: int) -> int:
    """`at_ms`, or the end of the total or of the ttl for the first hand-over where that comes first."""
    if not leg.handed:
        at_ms = min(at_ms, head.first_at_ms)
    return min(at_ms, ends_at_ms(head, leg))
