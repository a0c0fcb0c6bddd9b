"""The router: reads a batch of entries, decides about each, and has them applied and acknowledged in one step per partition.

It may die at any instruction: what it has not acknowledged stays pending to it, is read again by itself after a lost connection, and by
anyone after five seconds. No entry can stop it: one that cannot be applied even alone goes to the dead letters.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from itertools import islice

from reach.backend.port import Backend
from reach.backend.steps import Decision, Record, RouteResult, WorkEntry
from reach.clock import Clock, SystemClock
from reach.delivery.conversations import Conversations
from reach.delivery.inflight import bounded, turned_away
from reach.delivery.judge import Case, Judge, Reference, read_reference, unfit_of
from reach.delivery.on_behalf import OnBehalf
from reach.delivery.rates import Rates
from reach.delivery.refusing import burials
from reach.delivery.remembering import Remembering
from reach.delivery.reopened import opened
from reach.delivery.replies import Replies
from reach.delivery.rooms import refused_by, waiting_for
from reach.delivery.soonest import SOON_MS, plans_of, soonest_ms
from reach.delivery.trail import Trail
from reach.errors import SERVER_ERRORS, BackendError, BackendUnavailable
from reach.log import PacedLog, event_log
from reach.service import Report, Wait

log = event_log("reach.router")

MAX_BATCH = 100
MAX_TRIES = 3
READ_BLOCK_MS = 500
CLAIM_EVERY_MS = 2_500
CLAIM_IDLE_MS = 5_000
MAX_INSPECTS = 32
READY_WAIT_S = 1.0


class Router:
    """A service that serves some partitions. One run reads once and has everything that it read applied.

    `now_ms` is the time of Redis, known once `ready` has returned; no clock of this machine decides anything. `ready` is awaited before
    anything is read: an index that has not been loaded knows nobody, and would have every message wait or end. `on_wait` is told when
    something will be due in less than a second. `reopen` (partition, agent) is asked for an inbox that is gone; True: it is there again.
    `catch_up` makes the index as fresh as the registry is now. `on_open` (agent, partition, moment) hears for how long a circuit is open.
    """

    name = "router"
    interval_ms = 0

    def __init__(
        self,
        backend: Backend,
        judge: Judge,
        trail: Trail,
        *,
        worker: str,
        partitions: Sequence[int],
        rates: Rates,
        now_ms: Callable[[], int],
        ready: Callable[[], Awaitable[None]] | None = None,
        before: Callable[[list[str]], Awaitable[None]] | None = None,
        on_wait: Callable[[int], None] | None = None,
        reopen: Callable[[int, str], Awaitable[bool]] | None = None,
        catch_up: Callable[[], Awaitable[None]] | None = None,
        on_open: Callable[[str, int, int], None] | None = None,
        max_batch: int = MAX_BATCH,
        block_ms: int = READ_BLOCK_MS,
        clock: Clock | None = None,
    ) -> None:
        self._backend, self._judge, self._trail = backend, judge, trail
        self._worker = worker
        self._partitions = tuple(partitions)
        self._now_ms, self._ready, self._before, self._on_wait = now_ms, ready, before, on_wait
        self._reopen, self._catch_up, self._on_open, self._rates = reopen, catch_up, on_open, rates
        self._max_batch = min(max(max_batch, 1), MAX_BATCH)
        self._block_ms = block_ms
        self._clock: Clock = clock or SystemClock()
        self._log = PacedLog(log, self._clock)
        self._on_behalf = OnBehalf(backend, trail, judge.index, clock=self._clock)
        self._conversations = Conversations(backend, judge.setting, clock=self._clock)
        self._remembering = Remembering(backend, judge, clock=self._clock)
        self._replies = Replies(judge.index, backend, self._inspect)
        self._wait = Wait()
        self._claim_at_ms = 0
        self._unfinished = True  # a run that has not ended well: entries may be pending to this worker
        self._surprised = False  # and it was no fault of Redis
        self._alone: WorkEntry | None = None  # the only entry in hand; if it brings the run down, it is buried

    def interrupt(self) -> None:
        """Wait for no more work."""
        self._wait.end()

    async def run_once(self) -> Report:
        """Read and apply. Cancelled: what was read stays pending and is claimed by somebody.

        Raises:
            BackendUnavailable: Redis is away; the next run begins with what is pending to this worker.
        """
        await self._wait_ready()
        was_unfinished, was_surprised = self._unfinished, self._surprised
        self._unfinished = self._surprised = True
        try:
            done = 0
            if was_unfinished:
                done += await self._recover(carefully=was_surprised and was_unfinished)
            done += await self._claim()
            read = self._backend.read_work(self._worker, self._partitions, self._max_batch, self._block_ms)
            entries = await self._wait.on(read)
            # Cut short: what was read in that moment is pending to this worker.
            done += await self._serve(entries) if entries is not None else await self._recover(carefully=False)
        except SERVER_ERRORS:
            self._surprised = False
            raise
        self._unfinished = self._surprised = False
        return {"entries": done} if done else {}

    async def _wait_ready(self) -> None:
        if self._ready is None:
            return
        try:
            async with asyncio.timeout(READY_WAIT_S):
                await self._ready()
        except TimeoutError:
            raise BackendUnavailable("who is there is not known yet") from None

    # ---------------------------------------------------------------- what is pending
    async def _recover(self, *, carefully: bool) -> int:
        """Serve what is pending to this worker; `carefully` (the last run was brought down): one at a time."""
        culprit, self._alone = self._alone, None
        done = 0
        for partition in self._partitions:
            seen: set[tuple[str, str]] = set()
            while entries := await self._backend.own_work(self._worker, partition):
                fresh = [entry for entry in entries if (entry.stream, entry.id) not in seen]
                if not fresh:
                    break
                seen.update((entry.stream, entry.id) for entry in fresh)
                if not carefully:
                    done += await self._serve(fresh)
                    continue
                for entry in fresh:
                    if culprit is not None and (entry.stream, entry.id) == (culprit.stream, culprit.id):
                        await self._bury(partition, Case(entry), "it brought a router down")
                        continue
                    self._alone = entry
                    done += await self._serve([entry])
                    self._alone = None
        return done

    async def _claim(self) -> int:
        """Take over what another router has left lying."""
        now_ms = self._clock.monotonic_ms()
        if now_ms < self._claim_at_ms:
            return 0
        self._claim_at_ms = now_ms + CLAIM_EVERY_MS
        done = 0
        for partition in self._partitions:
            entries = await self._backend.claim_work(self._worker, partition, CLAIM_IDLE_MS, self._max_batch)
            if entries:
                self._log.info("claimed", of=partition, partition=partition, count=len(entries))
                done += await self._serve(entries)
        return done

    # ---------------------------------------------------------------- serving
    async def _serve(self, entries: Iterable[WorkEntry]) -> int:
        by_partition: dict[int, list[WorkEntry]] = {}
        for entry in entries:
            by_partition.setdefault(entry.partition, []).append(entry)
        done = 0
        for partition, found in by_partition.items():
            batches = iter(found)
            while batch := list(islice(batches, self._max_batch)):
                await self._serve_batch(partition, batch)
                done += len(batch)
        return done

    async def _serve_batch(self, partition: int, entries: list[WorkEntry]) -> None:
        receipts = [entry for entry in entries if entry.kind == "receipts"]
        silent = await self._on_behalf.settle(partition, receipts) if receipts else []
        cases = await self._open_sends([entry for entry in entries if entry.kind == "ingress"])
        opened, rest = await self._open_agains(partition, [entry for entry in entries if entry.kind == "again"])
        cases += opened
        await self._finish(partition, silent + rest)
        await self._route(partition, cases)

    async def _open_sends(self, entries: list[WorkEntry]) -> list[Case]:
        cases = [self._judge.open_send(entry, self._now_ms()) for entry in entries]
        if self._catch_up is not None and any(
            _of_unknown_type(case) or self._of_unknown_groups(case) for case in cases
        ):
            # Whoever registered before sending has done so in Redis: this router may only not have heard of it yet.
            await self._catch_up()
            cases = [self._judge.open_send(c.entry, self._now_ms()) if _of_unknown_type(c) else c for c in cases]
        for case in cases:
            self._trail.received(case)
        return cases

    def _of_unknown_groups(self, case: Case) -> bool:
        """Whether the rules ask for the groups of a sender that nobody here knows."""
        index, envelope = self._judge.index, case.envelope
        return index.access.by_group and envelope is not None and not index.has_agent(envelope.source.agent_id)

    async def _open_agains(self, partition: int, entries: list[WorkEntry]) -> tuple[list[Case], list[WorkEntry]]:
        """The agains that ask for a decision, and the entries that need nothing more."""
        cases, silent = [], []
        pairs = [(entry, read_reference(entry.fields)) for entry in entries]
        for start in range(0, len(pairs), MAX_INSPECTS):
            part = pairs[start : start + MAX_INSPECTS]
            records = await asyncio.gather(*(self._inspect(partition, reference) for _, reference in part))
            for (entry, reference), record in zip(part, records, strict=True):
                case = self._judge.open_again(entry, reference, record) if reference is not None else None
                if case is None:
                    silent.append(entry)
                else:
                    cases.append(case)
        return cases, silent

    async def _inspect(self, partition: int, reference: Reference | None) -> Record | None:
        if reference is None:
            return None
        try:
            return await self._backend.inspect(partition, reference.msg_id, reference.leg, envelope=True)
        except SERVER_ERRORS:
            raise
        except BackendError as error:
            # A record that is no record: nobody can decide about it, its caller ends by its own clock.
            self._log.warning("unreadable record", msg_id=reference.msg_id, error=str(error))
            return None

    async def _finish(self, partition: int, entries: list[WorkEntry]) -> None:
        """Acknowledge what needs nothing more."""
        if entries:
            await self._backend.finish_work(partition, entries)

    async def _route(self, partition: int, cases: list[Case]) -> None:
        """Decide and apply, again for what could not be carried out, until every case has its verdict."""
        await self._conversations.ask(cases)
        await self._remembering.recall(cases)
        if self._before is not None:
            await self._before(
                [case.envelope.target.pattern for case in cases if case.envelope is not None and case.refused is None]
            )
        while cases:
            started = self._trail.mark()
            kept = [case for case in cases if await self._decide(partition, case)]
            if not kept:
                return
            mark = self._trail.mark()
            decided_us = (mark - started) // len(kept)
            try:
                results = await self._apply(partition, kept)
            except SERVER_ERRORS:
                for case in kept:  # each may have been applied
                    self._trail.unanswered(case)
                raise
            await self._remembering.keep(kept, results, self._now_ms())
            cases = []
            for case, result in zip(kept, results, strict=True):
                self._note_open(partition, case, result)
                if result.verdict in {"full", "gone", "open", "changed"}:
                    if turned_away(case, result):
                        pass  # it ends with the next round
                    elif result.verdict != "gone" or not await self._reopened(partition, case):
                        _note_unfit(case, result)
                    case.tries += 1
                    cases.append(case)
                    continue
                await self._rates.close(case, result)
                if result.verdict == "error":
                    await self._bury(partition, case, result.error)
                elif result.verdict == "done":
                    case.record = await opened(self._backend, partition, case, result, self._log)
                    self._trail.routed(case, result, mark, decided_us)
                    self._tell_wait(case)
                else:
                    self._trail.unanswered(case)

    def _note_open(self, partition: int, case: Case, result: RouteResult) -> None:
        """Whoever comes next to the same agent need not ask `route` first."""
        agents = [plan.agent for plan in plans_of(case.decision) if plan.act in {"deliver", "move"}]
        if result.verdict == "open" and self._on_open is not None:
            for agent_id in agents:
                self._on_open(agent_id, partition, self._now_ms() + result.wait_ms)

    async def _reopened(self, partition: int, case: Case) -> bool:
        """Whether the inboxes that this decision is about may have been gone and are there now. Each is opened once for a case."""
        agents = {plan.agent for plan in plans_of(case.decision) if plan.act in {"deliver", "move"}}
        if self._reopen is None or agents <= case.reopened:
            return False
        fresh, case.reopened = sorted(agents - case.reopened), case.reopened | agents
        opened = [await self._reopen(partition, agent_id) for agent_id in fresh]
        return all(opened)

    def _tell_wait(self, case: Case) -> None:
        """Whoever looks at what is due once a second would be late for this."""
        wait_ms = soonest_ms(case.decision)
        if self._on_wait is not None and wait_ms < SOON_MS:
            self._on_wait(wait_ms)

    async def _decide(self, partition: int, case: Case) -> bool:
        """Give a case its decision. False: it needs none any more."""
        if case.refused is not None:
            return True
        self._rates.begin(case)
        while await self._choose(partition, case):
            if await self._rates.pay(case):  # else one agent more is over its limit, and another choice is made
                self._rates.put_off(case)
                return True
        await self._rates.close(case, None)
        return False

    async def _choose(self, partition: int, case: Case) -> bool:
        if case.tries >= 2 * MAX_TRIES:
            # Somebody else changes it under our hands every time: it stays pending, and is claimed when it has lain for a while.
            self._log.warning("let lie", entry=case.entry.id, stream=case.entry.stream)
            return False
        if case.reference is None:
            await self._replies.look_up(case)
            self._judge.decide_send(case, self._now_ms())
        elif await self._refresh(partition, case, case.reference):
            self._judge.read_again(case)
            await self._replies.look_up(case)
            self._judge.decide_again(case)
        else:
            return False
        if case.tries >= MAX_TRIES:
            self._judge.give_up(case, self._now_ms())
        if case.rooms:
            case.decision = waiting_for(case.decision, case.rooms)
        return True

    async def _refresh(self, partition: int, case: Case, reference: Reference) -> bool:
        """See the leg again where the last decision could not be carried out. False: it asks for none any more."""
        if not case.tries:
            return True
        opened = self._judge.open_again(case.entry, reference, await self._inspect(partition, reference))
        if opened is None:
            await self._finish(partition, [case.entry])
            return False
        case.record = opened.record
        return True

    # ---------------------------------------------------------------- applying
    async def _apply(self, partition: int, cases: list[Case]) -> list[RouteResult]:
        """One call for all; where the whole call fails, one by one, so that only the one that fails alone suffers."""
        made = [case.decision for case in cases if case.decision is not None]
        decisions = [bounded(decision, self._judge.setting, self._backend.partitions) for decision in made]
        if len(decisions) == 1:
            return [await self._route_alone(partition, decisions[0])]
        try:
            return await self._backend.route(partition, decisions)
        except SERVER_ERRORS:
            raise
        except BackendError as error:
            self._log.warning("batch failed", of=partition, partition=partition, count=len(decisions), error=str(error))
        return [(await self._apply(partition, [case]))[0] for case in cases]

    async def _bury(self, partition: int, case: Case, reason: str) -> None:
        """Put an entry among the dead letters; where even that fails, acknowledge it, so that it cannot come for ever."""
        self._log.error("buried", entry=case.entry.id, stream=case.entry.stream, error=reason)
        result = RouteResult("error")
        for burial in burials(case, reason, at_ms=self._now_ms(), durability=self._backend.durability):
            result = await self._route_alone(partition, burial)
            if result.verdict != "error":
                break
        else:  # of each: this line is all that is left of it
            self._log.error("not even buried", of=case.entry.id, entry=case.entry.id, error=result.error)
            await self._backend.finish_work(partition, [case.entry])
        self._trail.buried(case, burial, reason)

    async def _route_alone(self, partition: int, decision: Decision) -> RouteResult:
        try:
            return (await self._backend.route(partition, [decision]))[0]
        except SERVER_ERRORS:
            raise
        except BackendError as error:
            return RouteResult("error", error=str(error))


def _of_unknown_type(case: Case) -> bool:
    return case.refused is not None and case.refused.code == "type.unregistered"


def _note_unfit(case: Case, result: RouteResult) -> None:
    """Remember whose inbox could not take it, so that the next choice is another one."""
    if result.verdict not in {"full", "gone"}:
        return
    case.rooms = {**case.rooms, **refused_by(case.decision, result)}
    for plan in plans_of(case.decision):
        if plan.act in {"deliver", "move"}:
            case.unfit = {**case.unfit, plan.agent: unfit_of(result)}
