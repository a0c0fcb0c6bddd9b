"""The registry's side: control, registrations, beats, changes, settings."""

import re
from collections.abc import Callable, Sequence

from reach import ids
from reach.backend.bounds import MAX_BEAT_BYTES, MAX_TYPES
from reach.backend.keys import GROUP_REGISTRARS
from reach.backend.memory_backend.instances import InstancesSide, drop
from reach.backend.memory_backend.rating import spend_rate
from reach.backend.memory_backend.streams import Fields
from reach.backend.memory_backend.tombstones import gone_at, prune, tombstone
from reach.backend.steps import BeatResult, Change, LastBeat, MetaKind, RegisterResult, Snapshot, Written
from reach.backend.told_beats import told_beat
from reach.envelope.registration import Rate, Why
from reach.errors import BackendError

MAX_CONTROL = 10_000
TOLD_MS = 3_600_000
CHANGES_PAGE = 1_000
CONTROL_PAGE = 100
AHEAD_MS = 1_000

_STATE = re.compile(rb'"state"\s*:\s*"([a-z_]+)"')
_ASKS = re.compile(rb'"capabilities"\s*:')
_OBJECT = re.compile(rb"\s*\{\s*(.*?)\s*\}\s*\Z", re.DOTALL)
_WORKING = frozenset({b"ready", b"busy"})
_OPS: dict[MetaKind, str] = {"meta": "meta", "routes": "route", "types": "type", "rules": "rule"}


class RegistrySide(InstancesSide):
    """Who is there, and how to choose; see `reach.backend.port` for what each method promises."""

    # ---------------------------------------------------------------- control

    async def send_control(self, entry: bytes) -> str:
        def step() -> str:
            key = self._keys.control()
            self._own_group(key, GROUP_REGISTRARS)
            return self._store.append(key, {b"c": entry}, max_entries=MAX_CONTROL) or ""

        return await self._step("send_control", step)

    async def read_control(self, worker: str, block_ms: int, claim_idle_ms: int = 5_000) -> list[tuple[str, bytes]]:
        key = self._keys.control()

        def step() -> list[tuple[str, bytes]]:
            now_ms = self._store.now_ms()
            group = self._own_group(key, GROUP_REGISTRARS)
            found: dict[str, Fields] = {}
            for entry_id, fields in group.own(worker, now_ms):
                if fields is None:
                    group.ack(entry_id)
                else:
                    found[entry_id] = fields
            claimed, _ = group.autoclaim(worker, claim_idle_ms, CONTROL_PAGE, now_ms)
            found.update(claimed)
            found.update(group.read(worker, CONTROL_PAGE, now_ms))
            return [(entry_id, fields.get(b"c", b"")) for entry_id, fields in found.items()]

        return await self._wait("read_control", [key], step, block_ms)

    async def finish_control(self, entry_id: str, mailbox: str = "", notice: bytes = b"") -> None:
        def step() -> None:
            if mailbox:
                self._partition(0).post(mailbox, b"n", notice)
            self._discard(self._keys.control(), GROUP_REGISTRARS, [entry_id])

        await self._step("finish_control", step)

    # ---------------------------------------------------------------- registrations and beats

    async def register(
        self,
        agent_id: str,
        registration: bytes,
        instance_id: str,
        beat: bytes,
        expected: bytes | None,
        types: Sequence[str] = (),
    ) -> RegisterResult:
        def step() -> RegisterResult:
            if self._registered(agent_id) != expected:
                return RegisterResult(False, self._version())
            inner = registration.strip()
            if not (inner.startswith(b"{") and inner.endswith(b"}")):
                raise BackendError("REACH_BAD_REGISTRATION not a JSON object", details={"agent": agent_id})
            inner = inner[1:-1].strip()
            version = self._next_version()
            stored = b"{" + inner + (b"," if inner else b"") + b'"v":' + str(version).encode() + b"}"
            self._hash(self._keys.agents())[agent_id] = stored
            told = self._first_beat(agent_id, instance_id, beat, new=expected is None) if instance_id else {}
            if types:
                known = self._hash(self._keys.types())
                for each in types:
                    if len(known) < MAX_TYPES:
                        known.setdefault(each, b"1")
            self._prune()
            return RegisterResult(True, self._tell(version, "agent", agent_id, stored, told))

        return await self._step("register", step)

    def _first_beat(self, agent_id: str, instance_id: str, beat: bytes, *, new: bool) -> Fields:
        """It counts from now, unless the instance beats already; what is told of it beside the registration."""
        member = f"{agent_id}/{instance_id}"
        self._store.clear_wrong(self._keys.beats(), "zset")
        self._store.clear_wrong(self._keys.load(), "hash")
        if member not in self._peek_zset(self._keys.beats()):
            self._zset(self._keys.beats())[member] = self._store.now_ms()
            self._hash(self._keys.load())[member] = beat
        self._note_instance(agent_id, instance_id, new=new)
        at_ms, kept = self._peek_zset(self._keys.beats())[member], self._peek_hash(self._keys.load()).get(member)
        return {b"i": instance_id.encode(), b"t": str(int(at_ms)).encode(), b"b": kept or b"{}"}

    async def remove(self, agent_id: str, expected: bytes, before_ms: int, why: Why) -> bool:
        def step() -> bool:
            stored = self._registered(agent_id)
            if stored is None:
                return True
            beats = self._peek_zset(self._keys.beats())
            instances = self._instances(agent_id)
            seen_ms = [max(int(beats[member]), 0) for member in instances]
            if stored != expected or any(at_ms >= before_ms for at_ms in seen_ms):
                return False
            now_ms, version = self._store.now_ms(), self._next_version()
            known_why = why if why in {"left", "silent"} else "removed"
            left = tombstone(now_ms, version, known_why, max(seen_ms, default=0))
            self._hash(self._keys.agents())[agent_id] = left
            for member in instances:
                self._forget(member)
            self._forget_instances(agent_id)
            self._prune()
            self._tell(version, "gone", agent_id, left)
            return True

        return await self._step("remove", step)

    async def registered(self, agent_id: str) -> bytes | None:
        return await self._step("registered", lambda: self._registered(agent_id))

    async def registration(self, agent_id: str) -> tuple[bytes | None, dict[str, int]]:
        def step() -> tuple[bytes | None, dict[str, int]]:
            beats = self._peek_zset(self._keys.beats())
            return self._registered(agent_id), {
                member.removeprefix(f"{agent_id}/"): beats[member] for member in self._instances(agent_id)
            }

        return await self._step("registration", step)

    async def instances(self, agent_id: str) -> list[LastBeat]:
        def step() -> list[LastBeat]:
            beats, load = self._peek_zset(self._keys.beats()), self._peek_hash(self._keys.load())
            members = sorted(self._instances(agent_id))
            return [LastBeat(*_names(member), beats[member], load.get(member, b"{}")) for member in members]

        return await self._step("instances", step)

    async def peers(self, entries: Sequence[bytes]) -> list[list[str]] | None:  # noqa: ARG002
        return await self._step("peers", lambda: None)

    async def beat(self, agent_id: str, instance_id: str, beat: bytes) -> BeatResult:
        def step() -> BeatResult:
            if len(beat) > MAX_BEAT_BYTES:
                text = f"REACH_BAD_BEAT a beat of {len(beat)} bytes, at most {MAX_BEAT_BYTES}"
                raise BackendError(text, details={"agent": agent_id})
            if not (ids.is_name(agent_id) and ids.is_name(instance_id)):
                raise BackendError("REACH_BAD_BEAT agent_id or instance_id is no name", details={"agent": agent_id})
            now_ms = self._store.now_ms()
            known = self._registered(agent_id) is not None
            if not known and _state(beat) in _WORKING:
                return BeatResult(False, now_ms)
            member = f"{agent_id}/{instance_id}"
            load = self._hash(self._keys.load())
            before = load.get(member)
            self._zset(self._keys.beats())[member] = now_ms
            load[member] = beat
            if before is None:
                self._note_instance(agent_id, instance_id, new=not known)
            asked = _ASKS.search(beat) and _OBJECT.match(beat)
            if known and asked:
                who = f'{{"op":"capabilities","beat":1,"agent_id":"{agent_id}","instance_id":"{instance_id}",'.encode()
                entry = who + asked[1] + b"}"
                self._own_stream(self._keys.control())
                self._store.append(self._keys.control(), {b"c": entry}, max_entries=MAX_CONTROL)
            if known and (before is None or _state(before) != _state(beat)):
                self._tell(self._next_version(), "state", member, beat)
            return BeatResult(known, now_ms)

        return await self._step("beat", step)

    async def leave(self, agent_id: str, instance_id: str, before_ms: int | None = None) -> bool:
        def step() -> bool:
            member = f"{agent_id}/{instance_id}"
            at_ms = self._peek_zset(self._keys.beats()).get(member)
            shows_life = before_ms is not None and at_ms is not None and at_ms >= before_ms
            if not shows_life:
                if self._forget(member):
                    self._tell(self._next_version(), "gone", member, b"")
                drop(self._peek_instances(), agent_id, instance_id)
            last = not self._instances(agent_id)
            if last and self._registered(agent_id) is None:
                self._forget_instances(agent_id)
            return last

        return await self._step("leave", step)

    async def last_beats(self, since_ms: int) -> tuple[int, list[LastBeat]]:
        def step() -> tuple[int, list[LastBeat]]:
            beats = [(member, at_ms) for member, at_ms in self._by_moment() if at_ms >= since_ms]
            load = self._peek_hash(self._keys.load()) if beats else {}
            return self._store.now_ms(), [
                LastBeat(*_names(member), at_ms, load.get(member, b"{}")) for member, at_ms in beats
            ]

        return await self._step("last_beats", step)

    async def overdue_beats(self, before_ms: int) -> list[tuple[str, str, int]]:
        def step() -> list[tuple[str, str, int]]:
            now_ms, beats = self._store.now_ms(), self._peek_zset(self._keys.beats())
            for member in [member for member, at_ms in self._by_moment() if at_ms > now_ms + AHEAD_MS]:
                beats[member] = now_ms
            late = [(*_names(member), at_ms) for member, at_ms in self._by_moment() if at_ms < before_ms]
            return late[:CHANGES_PAGE]

        return await self._step("overdue_beats", step)

    async def moment(self) -> int:
        return await self._step("moment", self._store.now_ms)

    # ---------------------------------------------------------------- what the index is built from

    async def snapshot(self) -> Snapshot:
        def step() -> Snapshot:
            agents = self._peek_hash(self._keys.agents())
            written = self._written()
            last = next(iter(reversed(self._behind(self._keys.changes(), "0-0", 0))), ("0-0", {}))
            return Snapshot(
                version=written.version,
                cursor=last[0],
                agents={name: stored for name, stored in agents.items() if gone_at(stored) is None},
                routes=written.routes,
                types=written.types,
                meta=written.meta,
                circuits=dict(self._peek_hash(self._keys.circuit())),
                rules=written.rules,
                families=dict(self._peek_hash(self._keys.families())),
                gone={name: stored for name, stored in agents.items() if gone_at(stored) is not None},
            )

        return await self._step("snapshot", step)

    async def written(self) -> Written:
        return await self._step("written", self._written)

    def _written(self) -> Written:
        meta, rules = self._peek_hash(self._keys.meta()), self._keys.rules()
        return Written(
            version=self._version(),
            routes=dict(self._peek_hash(self._keys.routes())),
            types=frozenset(self._peek_hash(self._keys.types())),
            meta={name: value.decode(errors="replace") for name, value in meta.items() if name != "v"},
            # Never healed by reading: what forbade something would then allow it.
            rules=None if self._store.type_of(rules) not in {None, "hash"} else dict(self._peek_hash(rules)),
        )

    async def changes(self, cursor: str, block_ms: int) -> list[Change]:
        key = self._keys.changes()

        def step() -> list[Change]:
            found = self._behind(key, cursor, CHANGES_PAGE)
            if not found and self._ends_before(key, cursor):
                found = self._behind(key, "0-0", CHANGES_PAGE)
            return [_change(entry_id, fields) for entry_id, fields in found]

        return await self._wait("changes", [key], step, block_ms)

    async def set_meta(self, kind: MetaKind, name: str, value: bytes | None) -> None:
        await self._step("set_meta", lambda: self._set_meta(kind, name, value))

    async def swap_meta(self, kind: MetaKind, name: str, value: bytes | None, expected: bytes | None) -> bool:
        return await self._step("set_meta", lambda: self._set_meta(kind, name, value, lambda lies: lies == expected))

    async def spend_rate(self, agent_id: str, rate: Rate, tokens: int, *, back: bool = False) -> int:
        return await self._step(
            "spend_rate", lambda: spend_rate(self._store, self._keys.rate(agent_id), rate, tokens, back=back)
        )

    async def tell_circuit(self, name: str, circuit: bytes) -> bool:
        def step() -> bool:
            key = self._keys.circuit()
            if self._peek_hash(key).get(name, b"") == circuit:
                return False
            if circuit:
                self._hash(key)[name] = circuit
            else:
                self._peek_hash(key).pop(name, None)
            self._store.drop_empty(key)
            self._store.expire_at(key, self._store.now_ms() + TOLD_MS)
            self._tell(self._next_version(), "circuit", name, circuit)
            return True

        return await self._step("tell_circuit", step)

    async def lock(self, service: str, owner: str, ttl_ms: int) -> bool:
        def step() -> bool:
            key = self._keys.lock(service)
            self._store.clear_wrong(key, "string")
            if self._store.string(key) not in {None, owner.encode()}:
                return False
            self._store.put(key, owner.encode())
            self._store.expire_at(key, self._store.now_ms() + ttl_ms)
            return True

        return await self._step("lock", step)

    # ---------------------------------------------------------------- inside a step

    def _registered(self, agent_id: str) -> bytes | None:
        """The stored bytes; a removed agent is absent to everybody who asks."""
        stored = self._peek_hash(self._keys.agents()).get(agent_id)
        return None if stored is None or gone_at(stored) is not None else stored

    def _set_meta(
        self, kind: MetaKind, name: str, value: bytes | None, fits: Callable[[bytes | None], bool] = lambda _: True
    ) -> bool:
        if kind == "meta" and name == "v":
            raise BackendError("REACH_BAD_FIELD v is counted by the steps", details={"field": name})
        keys = self._keys
        key = {"meta": keys.meta, "routes": keys.routes, "types": keys.types, "rules": keys.rules}[kind]()
        if not fits(self._peek_hash(key).get(name)):
            return False
        if value is not None:
            self._hash(key)[name] = value
        else:
            self._peek_hash(key).pop(name, None)
            self._store.drop_empty(key)
        self._tell(self._next_version(), _OPS[kind], name, value or b"")
        return True

    def _forget(self, member: str) -> bool:
        """Drop one instance's beats; False: there were none."""
        there = self._peek_zset(self._keys.beats()).pop(member, None) is not None
        self._peek_hash(self._keys.load()).pop(member, None)
        self._store.drop_empty(self._keys.beats())
        self._store.drop_empty(self._keys.load())
        return there

    def _by_moment(self) -> list[tuple[str, int]]:
        beats = self._peek_zset(self._keys.beats())
        return sorted(beats.items(), key=lambda item: (item[1], item[0]))

    def _prune(self) -> None:
        beats = self._peek_zset(self._keys.beats())
        prune(self._peek_hash(self._keys.agents()), len(beats), self._store.now_ms())


def _state(beat: bytes) -> bytes:
    found = _STATE.search(beat)
    return found[1] if found else b"ready"


def _names(member: str) -> tuple[str, str]:
    agent_id, _, instance_id = member.rpartition("/")
    return agent_id, instance_id


def _change(entry_id: str, fields: Fields) -> Change:
    version = fields.get(b"v", b"")
    return Change(
        id=entry_id,
        version=ids.count_of(version) or 0,
        op=fields.get(b"op", b"").decode(errors="replace"),
        name=fields.get(b"n", b"").decode(errors="replace"),
        data=fields.get(b"d", b""),
        beat=told_beat(fields.get(b"n", b"").decode(errors="replace"), fields),
    )
