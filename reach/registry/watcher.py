"""Keeps one router's index true: a snapshot, then every change as it comes, and the beats once a second."""

import asyncio
import gc
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

from reach import ids
from reach.backend import Backend
from reach.backend.steps import Change, LastBeat
from reach.clock import Clock, SystemClock
from reach.errors import BackendError
from reach.log import PacedLog, event_log
from reach.registry.filling import fill
from reach.registry.grace import LATE_MS, STEP_MS, Grace
from reach.registry.standing import Standing
from reach.routing.index import CapabilityIndex
from reach.service import Report, Wait

POLL_MS = 1_000
#: After a FLUSHALL agents come back within two seconds, those without the SDK with their next beat but one at the latest.
SETTLE_MS = 6_000
#: A router that finds an empty registry gives agents that long: the time in which those with the SDK come back.
NEW_SETTLE_MS = 2_000
MAX_PAGES = 100
#: Beats are asked for from a little before the last answer, so that none falls between two.
OVERLAP_MS = 200
MAX_TOLD = 1_000
#: So many beats are taken in before what has been told meanwhile, and others, have their turn: some 4 ms.
AT_ONCE = 500

log = event_log("reach.registry")


@contextmanager
def uncollected() -> Iterator[None]:
    """No search for garbage, in any thread: what is made within stays, and is much, and would be looked through again and again."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()


class Complaints:
    """Says in the log which records cannot be read: each name once, for whoever wrote it cannot be asked."""

    def __init__(self) -> None:
        self._told: set[str] = set()

    def hear(self, name: str, problem: str) -> None:
        """A record of this name cannot be read."""
        if name in self._told or len(self._told) >= MAX_TOLD:
            return
        self._told.add(name)
        log.warning("unreadable record", extra={"of": name, "error": problem})


class Watcher:
    """A service that blocks in its run. After any error of the backend, or a gap in the versions, it starts from a new snapshot.

    Also the router's estimate of the backend's clock: `now_ms`.
    """

    name = "watcher"
    interval_ms = 0

    def __init__(self, backend: Backend, index: CapabilityIndex, *, clock: Clock | None = None) -> None:
        self.index = index
        #: Called when the index has been filled for the first time. A process that is a router and nothing else takes what it holds by
        #: then out of all later searches for garbage (`gc.freeze`): each of them would stop it for 50 ms with 10,000 agents.
        self.when_loaded: Callable[[], None] = lambda: None
        self._backend = backend
        self._clock: Clock = clock or SystemClock()
        self._log = PacedLog(log, self._clock)
        self._loaded = asyncio.Event()
        self._grace = Grace(POLL_MS)
        self._standing = Standing()
        self._cursor: str | None = None
        self._version = 0
        self._loading = asyncio.Lock()
        self._wait = Wait()
        self._now_ms = 0
        self._looked_at_ms = 0  # of our own clock

    @property
    def loaded(self) -> bool:
        """Whether the index has been filled once; before that it knows nobody, and no decision may be made with it."""
        return self._loaded.is_set()

    async def wait_loaded(self) -> None:
        """Wait until the index has been filled once. Cancelling is safe."""
        await self._loaded.wait()

    def now_ms(self) -> int:
        """The backend's clock, as far as the last poll and our own clock tell: right to about a round trip.

        Every decision is made by it. Before `loaded` nobody has asked the backend yet, and nothing may be decided.
        """
        return self._now_ms + self._clock.monotonic_ms() - self._looked_at_ms

    def interrupt(self) -> None:
        """Wait for no more changes."""
        self._wait.end()

    async def run_once(self) -> Report:
        """Wait for changes, at most until the next poll of the beats, and take them in."""
        try:
            if self._cursor is None:
                return await self._load()
            asked = self._cursor
            wait_ms = POLL_MS - (self._clock.monotonic_ms() - self._looked_at_ms)
            changes = await self._wait.on(self._backend.changes(asked, max(wait_ms, 1)))
            if changes is None:
                return {}
            took = await self._follow(asked, changes)
            if self._clock.monotonic_ms() - self._looked_at_ms >= POLL_MS:
                took["beats"] = await self._poll()
                took["forgotten"] = self.index.forget_silent(self._now_ms)
            return took
        except BackendError:
            self._cursor = None
            raise

    async def catch_up(self) -> None:
        """Take in all that has been told until now: for who meets something that the index does not know yet. Beside `run_once`.

        Raises:
            BackendError: It cannot be asked.
        """
        for _ in range(MAX_PAGES):
            if self._cursor is None:
                await self._load()
                return
            if not await self._glance():
                return

    async def _glance(self) -> bool:
        """Take in what has been told and not been read yet. Whether there was anything."""
        asked = self._cursor
        if asked is None:
            return False
        changes = await self._backend.changes(asked, 0)
        if changes:
            await self._follow(asked, changes)
        return bool(changes)

    async def look(self) -> int:
        """Take in what is written down for the env, told or not; how much of it was not known. Beside `run_once`.

        Raises:
            BackendError: It cannot be read.
        """
        if not self.loaded:
            return 0
        written = await self._backend.written()
        if written.version < self._version:
            return 0  # what was told meanwhile is newer; or the server has forgotten everything, and the next change shows it
        found, access = 0, self.index.access
        for op, name, data in self._standing.reads(written):
            self.index.apply(op, name, data)
            found += 1
        if (written.rules is None) != access.lost:
            access.load(written.rules)
            found += 1
        return found

    async def _follow(self, asked: str, changes: list[Change]) -> dict[str, int]:
        """Take in what lies behind `asked`, as far as the other reader has not done it meanwhile."""
        if self._cursor != asked:
            changes = [change for change in changes if change.version > self._version]
        if self._cursor is None or any(change.version != self._version + at for at, change in enumerate(changes, 1)):
            return await self._load()  # something was missed, or the server has forgotten everything
        return await self._take(changes)

    async def _load(self) -> dict[str, int]:
        async with self._loading:
            snapshot = await self._backend.snapshot()
            beats = await self._ask(0)  # before anybody is known without them: so one would count as silent
            emptied = bool(self.index.agents) and not snapshot.agents
            new = not self.loaded and not snapshot.version  # or forgotten just before we came: nobody can tell
            lost = self.loaded and (snapshot.version < self._version or emptied)
            if (
                lost
            ):  # before the index forgets them: nobody may be refused for want of those who are about to come back
                self._log.warning("registry lost", version=snapshot.version, was=self._version)
                self.index.settling_until_ms = self.now_ms() + SETTLE_MS
            with uncollected():
                fill(self.index, snapshot)
                self._standing.load(snapshot)
                self.index.offline.load(snapshot.gone)
                self._version, self._cursor = snapshot.version, snapshot.cursor
                heard = self._hear_all(beats)
                if lost or new:
                    self.index.settling_until_ms = self._now_ms + (SETTLE_MS if lost else NEW_SETTLE_MS)
                if not self.loaded:
                    self.when_loaded()
            self._loaded.set()
            return {"loaded": len(snapshot.agents), "beats": heard}

    async def _take(self, changes: list[Change]) -> dict[str, int]:
        latest_ms = self.now_ms() + STEP_MS
        for change in changes:
            # After the clock has gone back the ids still run ahead of it; a beat of the future would hide the next ones.
            if self._standing.hears(change):
                self.index.apply(change.op, change.name, change.data, min(ids.stream_id(change.id)[0], latest_ms))
            self._version, self._cursor = change.version, change.id
            if change.beat is not None:
                self._hear(change.beat, latest_ms)
        # Where a script of an earlier version has written the change, the first beat is not part of it: until the next poll it would
        # count as silent.
        registered = [
            ids.stream_id(one.id)[0] for one in changes if one.op == "agent" and one.data and one.beat is None
        ]
        if registered:
            self._hear_all(await self._ask(min(*registered, self._now_ms) - OVERLAP_MS))
        return {"changes": len(changes)}

    async def _poll(self) -> int:
        beats, taken = await self._ask(self._now_ms - OVERLAP_MS), 0
        for start in range(0, len(beats), AT_ONCE):
            if start:  # thousands have beaten: who registers meanwhile does not wait for all of them
                await self._glance()
            taken += self._hear_all(beats[start : start + AT_ONCE])
        return taken

    async def _ask(self, since_ms: int) -> list[LastBeat]:
        """The beats since then; and from now on the index knows whose silence counts."""
        now_ms, beats = await self._backend.last_beats(max(since_ms, 0))
        self._now_ms, self._looked_at_ms = now_ms, self._clock.monotonic_ms()
        if not self.loaded:
            self._grace.first_look(now_ms, self._looked_at_ms, max((last.at_ms for last in beats), default=None))
            self.index.known_until_ms = now_ms + POLL_MS + LATE_MS
        elif await self._takes_beats():
            if self._grace.look(now_ms, self._looked_at_ms):
                self.index.forget_beats()
                _, beats = await self._backend.last_beats(0)
            self.index.known_until_ms = now_ms + POLL_MS + LATE_MS
        self.index.floor_ms = self._grace.floor_ms
        return beats

    async def _takes_beats(self) -> bool:
        """Whether silence means something: a server that answers and takes no writes makes everybody silent."""
        try:
            await self._backend.moment()
        except BackendError as error:
            self._log.warning("the server takes no beats", error=error.code)
            return False
        return True

    def _hear_all(self, beats: Iterable[LastBeat]) -> int:
        latest_ms = self._now_ms + STEP_MS
        return sum(self._hear(last, latest_ms) for last in beats)

    def _hear(self, last: LastBeat, latest_ms: int) -> bool:
        # A beat from the future is left over from before the clock went back: it counts from now, once.
        return self.index.beat(last.agent_id, last.instance_id, min(last.at_ms, latest_ms), last.beat)
