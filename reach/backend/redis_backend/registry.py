"""The registry's side: control, registrations, beats, changes, settings."""

from collections.abc import Mapping, Sequence
from typing import Any

from reach import ids
from reach.backend.bounds import MAX_MAIL
from reach.backend.connection import Reply
from reach.backend.keys import GROUP_REGISTRARS
from reach.backend.redis_backend.side import Side
from reach.backend.redis_backend.streams import LOST, Entry, code_of, lost, moment_of, pairs_of, text_of
from reach.backend.scripts import script
from reach.backend.steps import BeatResult, Change, LastBeat, MetaKind, RegisterResult, Snapshot, Written
from reach.backend.told_beats import told_beat
from reach.backend.vouching import name_of, peers_in
from reach.envelope.registration import Rate, Why
from reach.errors import BackendError

MAX_CONTROL = 10_000
MAX_CHANGES = 1_000
CONTROL_PAGE = 100
#: Each page holds the server up for a tenth of a ms; so many go in one round trip.
BEATS_PAGE, PAGES_AT_ONCE = 500, 5
#: of the beats of all agents, looked through for those of one: about a ms of the server's time
SCAN_PAGE = 5_000
TOMBSTONE = b'{"gone_at":'


class RegistrySide(Side):
    """Who is there, and how to choose; see `reach.backend.port` for what each method promises."""

    async def send_control(self, entry: bytes) -> str:
        key = self._keys.control()
        # One connection says both; where it may not name itself, it vouches for nothing, and is missed only where networks are set.
        commands = [
            ("CLIENT", "SETNAME", name_of(entry)),
            ("XADD", key, "MAXLEN", "~", MAX_CONTROL, "*", "c", entry),
        ]
        _, entry_id = await self._link.batch(commands)
        if isinstance(entry_id, BackendError) and lost(entry_id):
            await self._streams.heal((key,), GROUP_REGISTRARS)
            _, entry_id = await self._link.batch(commands)
        if isinstance(entry_id, BackendError):
            raise entry_id
        return str(entry_id, "ascii")

    async def read_control(self, worker: str, block_ms: int, claim_idle_ms: int = 5_000) -> list[tuple[str, bytes]]:
        key = self._keys.control()
        old = await self._streams.own(key, GROUP_REGISTRARS, worker)
        known = {entry.id for entry in old}
        claimed = await self._streams.claim(key, GROUP_REGISTRARS, worker, claim_idle_ms, CONTROL_PAGE)
        old += [entry for entry in claimed if entry.id not in known]
        found = await self._streams.whole(key, GROUP_REGISTRARS, old)
        # New ones are asked for in any case: an old one that fails again and again must not stop the rest.
        wait_ms = 0 if found else block_ms
        for _, entries in await self._streams.read_group(GROUP_REGISTRARS, worker, {key: ">"}, CONTROL_PAGE, wait_ms):
            found += entries
        return [(entry.id, (entry.fields or {}).get(b"c", b"")) for entry in found]

    async def finish_control(self, entry_id: str, mailbox: str = "", notice: bytes = b"") -> None:
        if mailbox:
            # A mailbox of the wrong type or none at all is its owner's loss; the entry is finished all the same.
            mail = self._keys.mail(0, mailbox)
            await self._link.batch([["XADD", mail, "NOMKSTREAM", "MAXLEN", "~", MAX_MAIL, "*", "n", notice]])
        await self._streams.discard(self._keys.control(), GROUP_REGISTRARS, [entry_id])

    async def register(
        self,
        agent_id: str,
        registration: bytes,
        instance_id: str,
        beat: bytes,
        expected: bytes | None,
        types: Sequence[str] = (),
    ) -> RegisterResult:
        known = int(expected is not None)
        ok, version = await self._link.run(
            script("register"),
            self._keys.agents(),
            agent_id,
            registration,
            instance_id,
            beat,
            known,
            expected or b"",
            *types,
        )
        return RegisterResult(ok == 1, int(version))

    async def registered(self, agent_id: str) -> bytes | None:
        stored = await self._healing(self._keys.agents(), "hash", "HGET", self._keys.agents(), agent_id)
        return stored if isinstance(stored, bytes) and not stored.startswith(TOMBSTONE) else None

    async def registration(self, agent_id: str) -> tuple[bytes | None, dict[str, int]]:
        stored = await self.registered(agent_id)
        keys = self._keys
        known = await self._healing(keys.instances(), "hash", "HGET", keys.instances(), agent_id)
        if not isinstance(known, bytes):
            return stored, await self._looked_for(agent_id)
        instances = [each for each in text_of(known).split("/") if each]
        members = [f"{agent_id}/{each}" for each in instances]
        scores = await self._healing(keys.beats(), "zset", "ZMSCORE", keys.beats(), *members) if members else None
        moments = zip(instances, scores or [None] * len(instances), strict=True)
        return stored, {each: moment_of(score) for each, score in moments if score is not None}

    async def _looked_for(self, agent_id: str) -> dict[str, int]:
        """Who beats for an agent that the hash of instances does not know, found among the beats of all."""
        prefix = f"{agent_id}/"
        beats: dict[str, int] = {}
        cursor: bytes | int = 0
        while True:
            command = ("ZSCAN", self._keys.beats(), cursor, "MATCH", f"{prefix}*", "COUNT", SCAN_PAGE)
            reply = await self._healing(self._keys.beats(), "zset", *command)
            cursor, flat = reply or (b"0", [])
            for member, score in pairs_of(flat).items():
                name = text_of(member)
                if name.startswith(prefix):
                    beats[name.removeprefix(prefix)] = moment_of(score)
            if cursor == b"0":
                return beats

    async def instances(self, agent_id: str) -> list[LastBeat]:
        _, beats = await self.registration(agent_id)
        load, names = self._keys.load(), sorted(beats)
        members = [f"{agent_id}/{name}" for name in names]
        values = await self._healing(load, "hash", "HMGET", load, *members) if members else []
        said = zip(names, values or [None] * len(names), strict=True)
        return [LastBeat(agent_id, name, beats[name], value or b"{}") for name, value in said]

    async def peers(self, entries: Sequence[bytes]) -> list[list[str]] | None:
        names = [name_of(entry) for entry in entries]
        found = peers_in(text_of(await self._link.call("CLIENT", "LIST")), frozenset(names))
        return [found.get(name, []) for name in names]

    async def beat(self, agent_id: str, instance_id: str, beat: bytes) -> BeatResult:
        known, now_ms = await self._link.run(script("beat"), self._keys.agents(), agent_id, instance_id, beat)
        return BeatResult(known == 1, int(now_ms))

    async def leave(self, agent_id: str, instance_id: str, before_ms: int | None = None) -> bool:
        before = "" if before_ms is None else before_ms
        last = await self._link.run(script("leave"), self._keys.agents(), agent_id, instance_id, before)
        return bool(last == 1)

    async def remove(self, agent_id: str, expected: bytes, before_ms: int, why: Why) -> bool:
        gone = await self._link.run(script("remove"), self._keys.agents(), agent_id, expected, before_ms, why)
        return bool(gone == 1)

    async def moment(self) -> int:
        return int(await self._link.run(script("moment"), self._keys.agents()))

    async def snapshot(self) -> Snapshot:
        keys = self._keys
        commands = self._of_admins() | {
            ("HGETALL", keys.agents()): "hash",
            ("HGETALL", keys.circuit()): "hash",
            ("HGETALL", keys.families()): "hash",
            ("XREVRANGE", keys.changes(), "+", "-", "COUNT", "1"): "stream",
        }
        # One moment: what changes after it lies behind the cursor.
        *admins, agents, circuits, families, last = await self._at_once(commands)
        written = _written(*admins)
        return Snapshot(
            version=written.version,
            cursor=text_of(last[0][0]) if last else "0-0",
            agents={text_of(k): v for k, v in pairs_of(agents).items() if not v.startswith(TOMBSTONE)},
            routes=written.routes,
            types=written.types,
            meta=written.meta,
            circuits={text_of(k): v for k, v in pairs_of(circuits).items()},
            rules=written.rules,
            families={text_of(k): v for k, v in pairs_of(families).items()},
            gone={text_of(k): v for k, v in pairs_of(agents).items() if v.startswith(TOMBSTONE)},
        )

    async def written(self) -> Written:
        return _written(*await self._at_once(self._of_admins()))

    def _of_admins(self) -> dict[tuple[str, ...], str]:
        keys = self._keys
        return {
            ("HGETALL", keys.routes()): "hash",
            ("HKEYS", keys.types()): "hash",
            ("HGETALL", keys.meta()): "hash",
            ("HGETALL", keys.rules()): "hash",
        }

    async def _at_once(self, commands: Mapping[tuple[str, ...], str]) -> list[Reply]:
        """The replies, as of one moment; of a key of another type than it should be nothing, and the key is made anew."""
        replies = await self._link.atomic(list(commands))
        for i, (command, kind) in enumerate(commands.items()):
            reply = replies[i]
            if isinstance(reply, BackendError):
                if command[1] == self._keys.rules() and code_of(reply) in LOST:
                    continue  # never healed by reading: what forbade something would then allow it
                await self._heal_key(reply, command[1], kind)
                replies[i] = []
        return replies

    async def changes(self, cursor: str, block_ms: int) -> list[Change]:
        key = self._keys.changes()
        read = await self._streams.read({key: cursor}, MAX_CHANGES, block_ms)
        if not read and await self._streams.ends_before(key, cursor):
            read = await self._streams.read({key: "0-0"}, MAX_CHANGES)
        return [_change(entry) for _, entries in read for entry in entries]

    async def last_beats(self, since_ms: int) -> tuple[int, list[LastBeat]]:
        beats, load = self._keys.beats(), self._keys.load()
        time, flat = await self._link.batch([["TIME"], ["ZRANGEBYSCORE", beats, since_ms, "+inf", "WITHSCORES"]])
        if isinstance(flat, BackendError):
            await self._heal_key(flat, beats, "zset")
            flat = []
        scores = pairs_of(flat)
        members = list(scores)
        found: list[LastBeat] = []
        pages = [members[start : start + BEATS_PAGE] for start in range(0, len(members), BEATS_PAGE)]
        for start in range(0, len(pages), PAGES_AT_ONCE):
            some = pages[start : start + PAGES_AT_ONCE]
            replies = await self._link.batch([("HMGET", load, *page) for page in some])
            for page, reply in zip(some, replies, strict=True):
                if isinstance(reply, BackendError):
                    await self._heal_key(reply, load, "hash")
                values = [None] * len(page) if isinstance(reply, BackendError) else reply
                for member, value in zip(page, values, strict=True):
                    agent_id, _, instance_id = text_of(member).rpartition("/")
                    found.append(LastBeat(agent_id, instance_id, moment_of(scores[member]), value or b"{}"))
        return int(time[0]) * 1000 + int(time[1]) // 1000, found

    async def overdue_beats(self, before_ms: int) -> list[tuple[str, str, int]]:
        flat = await self._link.run(script("overdue"), self._keys.agents(), before_ms, "beats")
        found = []
        for member, score in pairs_of(flat).items():
            agent_id, _, instance_id = text_of(member).rpartition("/")
            found.append((agent_id, instance_id, moment_of(score)))
        return found

    async def set_meta(self, kind: MetaKind, name: str, value: bytes | None) -> None:
        await self._set_meta(kind, name, value, "", b"")

    async def swap_meta(self, kind: MetaKind, name: str, value: bytes | None, expected: bytes | None) -> bool:
        known = int(expected is not None)
        return bool(await self._set_meta(kind, name, value, known, expected or b""))

    async def _set_meta(self, kind: str, name: str, value: bytes | None, known: int | str, expected: bytes) -> int:
        argv = (kind, name, int(value is not None), value or b"", known, expected)
        return int(await self._link.run(script("set_meta"), self._keys.agents(), *argv))

    async def spend_rate(self, agent_id: str, rate: Rate, tokens: int, *, back: bool = False) -> int:
        argv = (agent_id, rate.messages, rate.tokens, tokens, int(back))
        return int(await self._link.run(script("spend_rate"), self._keys.agents(), *argv))

    async def tell_circuit(self, name: str, circuit: bytes) -> bool:
        return bool(await self._link.run(script("tell_circuit"), self._keys.agents(), name, circuit) == 1)

    async def lock(self, service: str, owner: str, ttl_ms: int) -> bool:
        reply = await self._link.run(script("lock"), self._keys.agents(), service, owner, ttl_ms)
        return bool(reply == 1)

    async def _healing(self, key: str, kind: str, *command: Any) -> Reply:
        """A read; None where the key held the wrong type, which is then freed."""
        try:
            return await self._link.call(*command)
        except BackendError as error:
            await self._heal_key(error, key, kind)
            return None

    async def _heal_key(self, error: BackendError, key: str, kind: str) -> None:
        if code_of(error) not in LOST:
            raise error
        await self._link.run(script("heal_key"), key, kind, "")


def _written(routes: Reply, types: Reply, meta: Reply, rules: Reply) -> Written:
    settings = {text_of(k): text_of(v) for k, v in pairs_of(meta).items()}
    version = settings.pop("v", "0")
    return Written(
        version=ids.count_of(version) or 0,
        routes={text_of(k): v for k, v in pairs_of(routes).items()},
        types=frozenset(text_of(k) for k in types),
        meta=settings,
        rules=None if isinstance(rules, BackendError) else {text_of(k): v for k, v in pairs_of(rules).items()},
    )


def _change(entry: Entry) -> Change:
    fields: Mapping[bytes, bytes] = entry.fields or {}
    version = fields.get(b"v", b"")
    return Change(
        id=entry.id,
        version=ids.count_of(version) or 0,
        op=text_of(fields.get(b"op", b"")),
        name=text_of(fields.get(b"n", b"")),
        data=fields.get(b"d", b""),
        beat=told_beat(text_of(fields.get(b"n", b"")), fields),
    )
