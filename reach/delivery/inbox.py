"""The agent's side of a message: wait at the bell, take, hold, settle.

What is held is known by its hand. After any lost connection the next take names what is held, so that work whose reply was swallowed on
the way comes again, and comes to nobody twice.
"""

import asyncio
import threading
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from reach.backend.port import Backend
from reach.backend.steps import Answer, Parking, Settlement, SettleVerdict, Taken
from reach.clock import Clock
from reach.delivery.lanes import LaneOrder
from reach.errors import BackendError, ReachError
from reach.log import PacedLog, event_log
from reach.service import Report

log = event_log("reach.agent")

MAX_BATCH = 100
#: how long after its total a result that cannot be written is still tried: the ledger has ended the message by then
GIVE_UP_AFTER_MS = 60_000
#: between two tries to park while Redis is away
FIRST_PAUSE_MS, MAX_PAUSE_MS = 100, 2_000

Hands = dict[int, dict[str, list[str]]]
"""partition -> lane -> hands."""


class Hold(NamedTuple):
    """Where an entry is that this instance holds. The hand alone does not say it: ids are unique within one stream only."""

    partition: int
    lane: str
    hand: str


def hold_of(taken: Taken) -> Hold:
    """What holds a message that was taken."""
    return Hold(taken.partition, taken.lane, taken.hand)


class Unsettled:
    """A result on its way to the ledger."""

    __slots__ = ("done", "give_up_at_ms", "settlement", "taken")

    def __init__(self, taken: Taken, settlement: Settlement, give_up_at_ms: int) -> None:
        self.taken = taken
        self.settlement = settlement
        self.give_up_at_ms = give_up_at_ms
        self.done: asyncio.Future[SettleVerdict] = asyncio.get_running_loop().create_future()


class Inbox:
    """One instance's inbox over all partitions. For one event loop; `holds` may be called from other threads.

    It is also the service that writes results: those that come while a write is under way go with the next one.
    """

    name = "settle"
    interval_ms = 0

    def __init__(
        self,
        backend: Backend,
        agent_id: str,
        instance_id: str,
        clock: Clock,
        on_gone: Callable[[], None] = lambda: None,
    ) -> None:
        """`on_gone` hears when lanes were missing: the server may have forgotten more than them."""
        self._on_gone = on_gone
        self.agent_id = agent_id
        self.instance_id = instance_id
        self._backend = backend
        self._clock = clock
        self._log = PacedLog(log, clock)
        self._lock = threading.Lock()
        self._held: dict[Hold, None] = {}  # in the order in which they were taken
        self._cursors: dict[int, Mapping[str, str]] = {}
        self._unsure: set[int] = set()
        self._buffer: list[Taken] = []
        self._first = 0
        self._order = LaneOrder()
        self._turn = (
            0  # how many messages this instance has been given: every eighth is looked for in the lowest lane first
        )
        self._unsettled: dict[int, list[Unsettled]] = {}
        self._work = asyncio.Event()

    # ------------------------------------------------------------ take

    async def take(self, free: int) -> list[Taken]:
        """Take at most `free` messages, from each partition in turn; fewer than there are where they are many or large.

        Cancelling is not safe: what was taken would lie until its lease ends.

        Raises:
            BackendError: Nothing could be taken; what may have been is named by the next take.
        """
        count = self._backend.partitions
        self._first = (self._first + 1) % count
        inorder = [(self._first + step) % count for step in range(count)]
        try:
            await self._fill([partition for partition in inorder if partition in self._unsure], free)
            if count > 1:
                await self._take_by_lane(free)
            await self._fill(inorder, free)
        except BackendError:
            self.connection_lost()
            if not self._buffer:
                raise
        taken, self._buffer = self._buffer, []
        return taken

    async def _fill(self, partitions: Iterable[int], free: int) -> None:
        """From each in turn, whatever lies there, as long as there is room."""
        for partition in partitions:
            left = free - len(self._buffer)
            if left <= 0:
                return
            await self._take_from(partition, left)

    async def _take_by_lane(self, free: int) -> None:
        """Over all partitions: high first, and the share of low. What is not seen here is left to `_fill`."""
        waiting = await self._backend.waiting(self.agent_id)
        while (chosen := self._order.choose(waiting, free=free - len(self._buffer), turn=self._turn)) is not None:
            before = self._turn
            await self._take_from(chosen.partition, chosen.most, chosen.lane)
            if self._turn - before < chosen.most:
                waiting[chosen.lane].discard(chosen.partition)

    async def _take_from(self, partition: int, free: int, only: str = "") -> None:
        gone = False
        for _ in range(2):
            unsure = partition in self._unsure
            held = self._held_in(partition) if unsure else None
            result = await self._backend.take(
                partition, self.agent_id, self.instance_id, free, held, turn=self._turn, only=only
            )
            if not result.gone:
                break
            self._log.warning("inbox gone", of=partition, agent=self.agent_id, partition=partition)
            gone = True
            await self._backend.open_inbox(partition, self.agent_id)
            self._on_gone()
        else:
            return
        if gone:  # what was pending to us is so only now that the new group has given it out again
            self._unsure.add(partition)
        elif unsure and not result.more:
            self._unsure.discard(partition)
        self._turn += len(result.taken)
        with self._lock:
            # A server that came back without its last second gives anew what goes on here all the while: it is ours again, and runs once.
            fresh = [taken for taken in result.taken if hold_of(taken) not in self._held]
            # A copy is no work: its entry is gone, and nobody renews or answers it.
            self._held.update(dict.fromkeys(hold_of(taken) for taken in fresh if not taken.observed))
        if len(fresh) < len(result.taken):
            told = {"agent": self.agent_id, "partition": partition, "count": len(result.taken) - len(fresh)}
            log.info("taken anew, and runs already", extra=told)
        self._buffer.extend(fresh)
        self._cursors[partition] = {**self._cursors.get(partition, {}), **result.cursors}

    def _held_in(self, partition: int) -> list[tuple[str, str]]:
        """(lane, hand) of each."""
        with self._lock:
            return [(hold.lane, hold.hand) for hold in self._held if hold.partition == partition]

    async def wait(self, block_ms: int) -> bool:
        """The bell: True when something may lie behind what was read, False after `block_ms`. Cancelling is safe.

        Raises:
            BackendError: It could not be heard.
        """
        if self._unsure or len(self._cursors) < self._backend.partitions:
            return True  # what comes again lies behind no cursor
        try:
            return await self._backend.ring(self.agent_id, self._cursors, block_ms)
        except BackendError:
            self.connection_lost()
            raise

    def connection_lost(self) -> None:
        """A reply may have been swallowed: from now on each partition's next take names what is held."""
        self._unsure.update(range(self._backend.partitions))

    # ------------------------------------------------------------ hold

    def holds(self) -> Hands:
        """What must be renewed. Safe from any thread."""
        hands: Hands = {}
        with self._lock:
            for partition, lane, hand in self._held:
                hands.setdefault(partition, {}).setdefault(lane, []).append(hand)
        return hands

    def forget(self, hold: Hold) -> None:
        """It is no longer ours: lost, cancelled or settled. Twice is once."""
        with self._lock:
            self._held.pop(hold, None)

    # ------------------------------------------------------------ settle

    async def settle(self, taken: Taken, answer: Answer, *, wait_ms: int = -1) -> SettleVerdict:
        """Give the answer, and wait until the ledger has it. An unknown outcome is written again: the same answer is no news.

        Args:
            taken: What was taken.
            answer: How it ended.
            wait_ms: >= 0: a return that burns no attempt and waits so long; 0 hands back.

        Returns:
            done, or `stale` (the ledger has ended or moved it), or `unknown` (it has forgotten it, or could not be reached for too long).

        Cancelling does not take the answer back.
        """
        settlement = Settlement(
            msg_id=taken.msg_id,
            leg=taken.leg,
            hand=taken.hand,
            answer=answer,
            instance=self.instance_id,
            wait_ms=wait_ms,
        )
        left_ms = max(taken.total_at_ms - taken.now_ms, 0) + GIVE_UP_AFTER_MS
        item = Unsettled(taken, settlement, self._clock.monotonic_ms() + left_ms)
        self._unsettled.setdefault(taken.partition, []).append(item)
        self._work.set()
        return await asyncio.shield(item.done)

    async def park(self, taken: Taken, parking: Parking) -> SettleVerdict:
        """Give the message up until it is answered, and wait until the ledger has it. An unknown outcome is written again: it is no news.

        Returns:
            done, or `stale` (the ledger has ended or moved it), or `unknown` (it has forgotten it, or could not be reached for too long).

        Cancelling leaves it held; its lease brings it back.
        """
        verdict: SettleVerdict = "unknown"
        give_up_at_ms = self._clock.monotonic_ms() + max(taken.total_at_ms - taken.now_ms, 0) + GIVE_UP_AFTER_MS
        pause_ms = FIRST_PAUSE_MS
        while True:
            try:
                verdict = await self._backend.park(taken.partition, self.agent_id, parking)
            except BackendError as error:
                self.connection_lost()
                if error.retryable and self._clock.monotonic_ms() + pause_ms < give_up_at_ms:
                    await self._clock.sleep(pause_ms)
                    pause_ms = min(2 * pause_ms, MAX_PAUSE_MS)
                    continue
                self._log.error("question refused", agent=self.agent_id, msg_id=taken.msg_id, error=error.code)
            break
        self.forget(hold_of(taken))
        return verdict

    @property
    def unsettled(self) -> int:
        """How many answers are not written yet."""
        return sum(map(len, self._unsettled.values()))

    async def run_once(self) -> Report:
        """Write the answers that wait, or wait for one. Cancelling is safe: what was not acknowledged is written again."""
        await self._work.wait()
        self._work.clear()
        batches = [(partition, waiting[:MAX_BATCH]) for partition, waiting in self._unsettled.items() if waiting]
        try:
            written = await asyncio.gather(
                *(self._write(partition, batch) for partition, batch in batches), return_exceptions=True
            )
        except BaseException:
            self._work.set()
            raise
        errors = []
        for (partition, batch), verdicts in zip(batches, written, strict=True):
            if isinstance(verdicts, BaseException):
                errors.append(verdicts)
            else:
                self._close(self._unsettled[partition], batch, verdicts)
        if self.unsettled:
            self._work.set()
        if errors:
            self._give_up()
            raise errors[0]
        return {"settled": sum(len(batch) for _, batch in batches)}

    async def _write(self, partition: int, batch: list[Unsettled]) -> Iterable[SettleVerdict]:
        try:
            return await self._backend.settle(partition, self.agent_id, [item.settlement for item in batch])
        except BackendError as error:
            self.connection_lost()
            if error.retryable:
                raise
            if len(batch) > 1:  # one bad key must not hold up the others
                return [verdict for item in batch for verdict in await self._write(partition, [item])]
            self._say("answer refused", batch[0], error)
            return ["unknown"]

    def _close(self, waiting: list[Unsettled], batch: list[Unsettled], verdicts: Iterable[SettleVerdict]) -> None:
        del waiting[: len(batch)]
        for item, verdict in zip(batch, verdicts, strict=True):
            self.forget(hold_of(item.taken))
            if not item.done.done():
                item.done.set_result(verdict)

    def _give_up(self) -> None:
        now = self._clock.monotonic_ms()
        for waiting in self._unsettled.values():
            late = [item for item in waiting if now >= item.give_up_at_ms]
            for item in late:
                waiting.remove(item)
                self._say("answer given up", item, None)
                self.forget(hold_of(item.taken))
                item.done.set_result("unknown")

    def _say(self, event: str, item: Unsettled, error: ReachError | None) -> None:
        code = error.code if error else "unreachable"
        self._log.error(event, agent=self.agent_id, msg_id=item.taken.msg_id, error=code)
