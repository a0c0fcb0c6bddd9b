"""What else happens in a random walk: the registry and the records, what is lost or spoilt, and what strangers write."""

from collections.abc import Sequence
from typing import Literal

from reach.backend.spent import Uncounted
from reach.backend.steps import Meeting, Turn
from reach.envelope.registration import Rate, Why
from tests.contract.places import KEYS
from tests.property.walker import AGENTS, BOXES, LINE, MESSAGES, Walker, msg_id_of

REGISTRATION = b'{"agent_id":"a1","capabilities":[{"name":"refund"}]}'


class WholeWalker(Walker):
    """Everybody, and everything that may go wrong."""

    # ---------------------------------------------------------------- the registry

    async def register(self, agent: str, instance: str, what: bytes, expected: str) -> None:
        """`expected`: what the registrar has read before: "right", "nothing" or "other"."""
        right = await self.backend.registered(agent)
        said = {"right": right, "nothing": None, "other": b'{"v":99}'}[expected]
        await self.backend.register(agent, what, instance, b'{"state":"ready"}', said, ["type.a", "type.b"])
        await self.backend.registration(agent)
        await self.backend.instances(agent)

    async def remove(self, agent: str, expected: str, ago_ms: int, why: Why) -> None:
        """`ago_ms`: who has beaten since then keeps it."""
        stored = await self.backend.registered(agent) or b"{}"
        before_ms = await self.backend.now_ms() - ago_ms
        await self.backend.remove(agent, stored if expected == "right" else b'{"v":99}', before_ms, why)

    async def moment(self) -> None:
        await self.backend.moment()

    async def beat(self, agent: str, instance: str, state: str, asks: bool = False) -> None:
        """`asks`: for other capabilities."""
        more = b',"capabilities":[]' if asks else b""
        await self.backend.beat(agent, instance, b'{"state":"%s"%s}' % (state.encode(), more))

    async def leave(self, agent: str, instance: str, ago_ms: int | None) -> None:
        """`ago_ms`: it stays where it has beaten since then."""
        before_ms = None if ago_ms is None else await self.backend.now_ms() - ago_ms
        await self.backend.leave(agent, instance, before_ms)

    async def watch(self) -> None:
        """What a router reads of the registry."""
        await self.backend.snapshot()
        await self.backend.written()
        changes = await self.backend.changes(self.changes, 0)
        self.changes = changes[-1].id if changes else self.changes
        now_ms = await self.backend.now_ms()
        await self.backend.last_beats(now_ms - 2_000)
        await self.backend.overdue_beats(now_ms - 15_000)

    async def set_meta(self, kind: Literal["meta", "routes", "types"], name: str, value: bytes | None) -> None:
        await self.backend.set_meta(kind, name, value)

    async def swap_meta(
        self, kind: Literal["meta", "routes", "types"], name: str, value: bytes | None, expected: bytes | None
    ) -> None:
        await self.backend.swap_meta(kind, name, value, expected)

    async def write_schema(self, family: str, expected: str, record: bytes, name: str, schema: bytes) -> None:
        """`expected`: what was read before: "right", "nothing" or "other"."""
        await self.backend.read_policies(["x"])
        await self.backend.read_meta(["x", "y"])
        right = (await self.backend.read_families([family])).get(family)
        said = {"right": right, "nothing": None, "other": b'{"v":99}'}[expected]
        await self.backend.write_schema(family, said, record, name, schema if name else b"")
        await self.backend.read_schemas(["a.v1", "a.v2"])

    async def tell_circuit(self, agent: str, what: bytes) -> None:
        await self.backend.tell_circuit(f"{agent}/0", what)

    async def lock(self, service: str, owner: str, ttl_ms: int) -> None:
        await self.backend.lock(service, owner, ttl_ms)

    async def spend_rate(self, agent: str, messages: int, tokens: int, needed: int, back: bool) -> None:
        await self.backend.spend_rate(agent, Rate(messages, tokens), needed, back=back)

    async def send_control(self, entry: bytes) -> None:
        await self.backend.send_control(entry)

    async def read_control(self, worker: str, idle_ms: int) -> None:
        self.controls += [entry_id for entry_id, _ in await self.backend.read_control(worker, 0, idle_ms)]

    async def finish_control(self, box: str) -> None:
        if not self.controls:
            await self.read_control("w1", 5_000)
        if self.controls:
            await self.backend.finish_control(self.controls[-1], box, b'{"notice":"registered"}')

    # ---------------------------------------------------------------- conversations

    async def converse(self, conversation: str, turns: Sequence[int], round_: int, bound: int) -> None:
        """Messages, each told by a number: how deep it is, what it answers, and what it says."""
        made = [
            Turn(
                conversation=conversation,
                msg_id=f"m{n}",
                round=round_,
                in_reply_to=f"m{n - 1}" if n % 2 else "",
                depth=n % 4,
                pair=f"p{n % 2}" if n % 4 else "",
                content=f"c{n % 3}",
                tokens=n % 5 * 10,
                max_hops=None if n % 3 else 6,
                max_cost=None if n % 2 else 1_500_000,
                max_tokens=None if n % 5 else 100,
            )
            for n in turns
        ]
        await self.backend.converse(made, bound, bound)

    async def spend(self, conversation: str, run: str, cost: int, tokens: int, of: int | None = None) -> None:
        """`of`: the number of a message that nobody has counted, and its round and needs with it."""
        message = None if of is None else Uncounted(f"m{of}", of % 3 + 1, of % 2 * 10)
        await self.backend.spend(conversation, run, cost, tokens, message)

    async def used_in(self, conversation: str) -> None:
        await self.backend.used_in(conversation)

    async def meet(self, source: str, conversation: str, agent: str) -> None:
        await self.backend.meet([Meeting(source, conversation, agent)])

    async def met(self, source: str, conversation: str) -> None:
        await self.backend.met([(source, conversation)])

    async def tell_demand(self, name: str, told: bytes, forget: Sequence[str]) -> None:
        await self.backend.tell_demand(name, told, forget)

    async def ask_demand(self) -> None:
        await self.backend.read_demand()
        await self.backend.lying(["a1", "a2", "nobody"])

    async def tell_recorder(self, name: str, ahead_ms: int | None) -> None:
        """`ahead_ms`: of now; None: it ends in order."""
        at_ms = None if ahead_ms is None else await self.backend.now_ms() + ahead_ms
        await self.backend.tell_recorder(name, at_ms)

    async def bury_recorders(self, ago_ms: int) -> None:
        """`ago_ms`: who has said something since then stays."""
        before_ms = await self.backend.now_ms() - ago_ms
        for name, _ in await self.backend.silent_recorders(before_ms):
            await self.backend.forget_recorder(name, before_ms)

    async def ask_depths(self) -> None:
        await self.backend.depths(["a1", "a2", "nobody"], "g")

    # ---------------------------------------------------------------- records

    async def record(self, batch: bytes) -> None:
        await self.backend.record(0, batch)

    async def read_records(self) -> None:
        events = await self.backend.read_events(0, self.events, 0)
        self.events = events[-1][0] if events else self.events
        letters = await self.backend.dead_letters(0, self.letters)
        self.letters = letters[-1][0] if letters else self.letters

    async def follow(self, reader: str, most: int, idle_ms: int) -> None:
        followed = await self.backend.follow_events(0, "g", reader, most, idle_ms, noted=self.noted)
        self.followed += [*followed.gone, *(entry_id for entry_id, _ in followed.batches)]
        self.noted = followed.trimmed

    async def finish_followed(self, count: int) -> None:
        """Some of what was ever given out, once more, too."""
        await self.backend.finish_events(0, "g", self.followed[-count:])

    async def unfollow(self, reader: str) -> None:
        await self.backend.unfollow_events(0, "g", reader)

    async def drop_dead(self, pick: int) -> None:
        """An admin takes dead letters away, one of them twice, and one that never was."""
        letters = [entry_id for entry_id, _ in await self.trio.entries(KEYS.dead(0))]
        await self.backend.drop_dead(0, [*letters[pick : pick + 2], *letters[pick : pick + 1], "7-7"])

    async def requeue(self, pick: int, lane: str) -> None:
        """An admin sends a dead letter once more, or one that never was."""
        letters = [entry_id for entry_id, _ in await self.trio.entries(KEYS.dead(0))]
        await self.backend.requeue(0, lane, b"requeued", [*letters, "7-7"][min(pick, len(letters))])

    # ---------------------------------------------------------------- losses, strangers

    async def lose(self, what: str, pick: int) -> None:
        """Something vanishes."""
        agent, message = AGENTS[pick % 2], msg_id_of(pick % MESSAGES)
        keys = {
            "inbox": KEYS.inbox(0, agent, "normal"),
            "bytes": KEYS.envelope(0, message),
            "record": KEYS.message(0, message),
            "tick": KEYS.tick(0),
            "due": KEYS.due(0),
            "mailbox": KEYS.mail(0, BOXES[pick % 4]),
            "again": KEYS.again(0),
            "ingress": KEYS.ingress(0, "normal"),
            "agents": KEYS.agents(),
            "control": KEYS.control(),
            "share": KEYS.share(0, agent),
            "room": KEYS.room(0, agent, "all"),
            "line": KEYS.line(0, LINE),
            "inflight": KEYS.inflight(0),
            "conversation": KEYS.conversation("c1"),
            "met": KEYS.met("s1"),
            "rate": KEYS.rate(agent),
            "health": KEYS.health(0),
            "events": KEYS.events(0),
        }
        if what in keys:
            await self.trio.by_hand("delete", keys[what])
        elif hand := self._hand(pick):  # the entry of a hand
            key = KEYS.inbox(0, hand.agent, hand.lane)
            if await self.trio.is_stream(key):
                await self.trio.by_hand("remove", key, hand.hand)

    async def forget_all(self) -> None:
        """FLUSHALL."""
        await self.trio.by_hand("forget_all")

    async def spoil(self, what: str) -> None:
        """A key holds something else."""
        keys = {
            "mailbox": KEYS.mail(0, BOXES[0]),
            "inbox": KEYS.inbox(0, AGENTS[0], "normal"),
            "due": KEYS.due(0),
            "tick": KEYS.tick(0),
            "again": KEYS.again(0),
            "ingress": KEYS.ingress(0, "normal"),
            "dead": KEYS.dead(0),
            "events": KEYS.events(0),
            "bytes": KEYS.envelope(0, msg_id_of(0)),
            "agents": KEYS.agents(),
            "beats": KEYS.beats(),
            "load": KEYS.load(),
            "changes": KEYS.changes(),
            "control": KEYS.control(),
            "routes": KEYS.routes(),
            "types": KEYS.types(),
            "meta": KEYS.meta(),
            "lock": KEYS.lock("opener"),
            "share": KEYS.share(0, AGENTS[0]),
            "room": KEYS.room(0, AGENTS[0], "all"),
            "line": KEYS.line(0, LINE),
            "inflight": KEYS.inflight(0),
            "conversation": KEYS.conversation("c1"),
            "met": KEYS.met("s1"),
            "rate": KEYS.rate(AGENTS[0]),
            "health": KEYS.health(0),
            "circuit": KEYS.circuit(),
        }
        await self.trio.spoil(keys[what])

    async def forge(self, agent: str, lane: str, message: int, leg: str) -> None:
        """Somebody writes into an inbox what no route has written."""
        key = KEYS.inbox(0, agent, lane)
        if await self.trio.is_stream(key):
            fields = {"m": msg_id_of(message).encode(), "l": leg.encode(), "e": b"x"}
            await self.trio.by_hand("append", key, fields)

    async def forge_again(self, message: int, leg: int, hand: str) -> None:
        """Somebody says that a leg wants a decision."""
        key = KEYS.again(0)
        if await self.trio.is_stream(key):
            fields = {"m": msg_id_of(message).encode(), "l": b"%d" % leg, "h": hand.encode()}
            await self.trio.by_hand("append", key, fields)
