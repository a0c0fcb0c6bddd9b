"""The registry's part of the Backend protocol: who is there, how they are, and what holds for the whole env. See `reach.backend.port`."""

from collections.abc import Sequence
from typing import Protocol

from reach.backend.steps import BeatResult, Change, LastBeat, MetaKind, RegisterResult, Snapshot, Written
from reach.envelope.registration import Rate, Why


class RegistryPort(Protocol):
    """Steps on the keys of an env."""

    async def send_control(self, entry: bytes) -> str:
        """XADD control c <json>, by a connection that vouches for these bytes (see `peers`)."""
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

        `expected`: the stored bytes that the caller read, None = absent. An instance that beats already says itself how it is: its
        first beat is left alone.
        """
        ...

    async def registered(self, agent_id: str) -> bytes | None:
        """The stored bytes of one registration, None = absent. One lookup, however many agents there are."""
        ...

    async def registration(self, agent_id: str) -> tuple[bytes | None, dict[str, int]]:
        """`registered`, and the last beat of each instance (instance_id -> ms). Looks through the beats of all agents."""
        ...

    async def instances(self, agent_id: str) -> list[LastBeat]:
        """The last beat of each instance of one agent, in order; b"{}" where one says nothing. Looks through all beats. Read only."""
        ...

    async def peers(self, entries: Sequence[bytes]) -> list[list[str]] | None:
        """For each entry of `control` the addresses of the connections that vouch for it (docs/registration.md). Read only.

        None: this backend has no connections, and everybody is inside.
        """
        ...

    async def beat(self, agent_id: str, instance_id: str, beat: bytes) -> BeatResult:
        """Score = TIME. A change of `state` is also told through `changes`.

        Of an agent that is not registered, a beat is kept only where it says that the instance takes no work: then there is no moment
        at which one that registers counts as ready and is not.

        Raises:
            BackendError: Over 16 KiB, or a name that is none.
        """
        ...

    async def leave(self, agent_id: str, instance_id: str, before_ms: int | None = None) -> bool:
        """Forget one instance's beats; with `before_ms` only if it has not beaten since. True: none is left."""
        ...

    async def remove(self, agent_id: str, expected: bytes, before_ms: int, why: Why) -> bool:
        """Remove a registration, remember for 24 h when and why, one change entry. True: it is gone. Again: True.

        False: another one is stored, or an instance has beaten at `before_ms` or later; nothing was changed.
        """
        ...

    async def snapshot(self) -> Snapshot: ...

    async def written(self) -> Written:
        """What `set_meta` writes, also where somebody has written it with plain commands and told nobody. At one moment."""
        ...

    async def changes(self, cursor: str, block_ms: int) -> list[Change]:
        """XREAD BLOCK behind cursor. A gap in `version` means: take a new snapshot."""
        ...

    async def last_beats(self, since_ms: int) -> tuple[int, list[LastBeat]]:
        """(now, beats at or after since_ms)."""
        ...

    async def moment(self) -> int:
        """Now, told only by a server that would take a beat. Raises BackendError where it takes no writes: that makes everybody silent."""
        ...

    async def overdue_beats(self, before_ms: int) -> list[tuple[str, str, int]]:
        """(agent_id, instance_id, last beat) for instances silent since before `before_ms`, the oldest first, at most 1,000.

        Beats from the future, made before the clock went back, are brought to now.
        """
        ...

    async def set_meta(self, kind: MetaKind, name: str, value: bytes | None) -> None:
        """Admin: write or remove (None) one setting, policy, type or rule, and tell it through `changes`."""
        ...

    async def swap_meta(self, kind: MetaKind, name: str, value: bytes | None, expected: bytes | None) -> bool:
        """`set_meta`, only where `expected` lies, None = nothing. False: something else does, and nothing was written.

        For whoever makes a new value out of the one that was read. Again: False, unless the value stays the same.
        """
        ...

    async def spend_rate(self, agent_id: str, rate: Rate, tokens: int, *, back: bool = False) -> int:
        """Take one message and so many tokens from the agent's bucket: 0, or in how many ms it will have them (nothing was taken).

        A bucket holds what may be spent in a minute, and fills evenly. `back`: give them back, since nothing came of it. Again: once more.
        """
        ...

    async def tell_circuit(self, name: str, circuit: bytes) -> bool:
        """Tell the env, through `changes`, what became of the circuit `agent_id/partition`; b"" = it is closed. Again: False."""
        ...

    async def lock(self, service: str, owner: str, ttl_ms: int) -> bool:
        """True when `owner` has or gets the lease of a service."""
        ...
