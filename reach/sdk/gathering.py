"""What `gather` gives back: everybody's receipts, as they come or together."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Sequence
from typing import Any, Generic, TypeVar

from reach.errors import ReachError, Timeout
from reach.sdk.declared import check_many
from reach.sdk.durations import Duration, maybe_ms
from reach.sdk.exchange import Exchange
from reach.sdk.pending import Pending, Waiters
from reach.sdk.receipts import Receipt, Receipts, receipt_of

T = TypeVar("T")

MAX_TARGETS = 1_000


class Group(Generic[T]):
    """The answers to one `gather`. Await it for all of them, or `async for receipt in group` for each as it comes; any number of times.

    The messages are under way as soon as `gather` has returned, and leaving an iteration ends that wait alone. Who is cancelled while it
    waits here, and nobody else does, gives up what is still open: it is cancelled, but for what has a `key`.
    """

    def __init__(self, exchange: Exchange, pendings: Sequence[Pending], returns: Any) -> None:
        """Made by `gather`: one pending for each target."""
        self._exchange = exchange
        self._pendings = tuple(pendings)
        self._returns = returns
        self._receipts: dict[tuple[int, int], Receipt[T]] = {}  # (target, leg), in the order in which they came
        self._open = len(self._pendings)
        self._error: BaseException | None = None
        self._waiters = Waiters()
        self._waiting = 0
        for n, pending in enumerate(self._pendings):
            pending.watch(lambda n=n: self._look(n))  # type: ignore[misc]  # mypy infers no type for a default
            pending.done.add_done_callback(lambda _, n=n: self._ended(n))  # type: ignore[misc]

    def __await__(self) -> Generator[Any, None, Receipts[T]]:
        """As `receipts`, for as long as it takes."""
        return self.receipts().__await__()

    async def receipts(self, timeout: Duration | None = None) -> Receipts[T]:
        """Wait until every leg has ended: the receipts in the order of the targets, then of the legs. Cancelling gives them up.

        Args:
            timeout: How long to wait here; the messages go on. None: until all have ended, which they do by their own deadline.

        Raises:
            Timeout: They have not ended within `timeout`.
            BackendError, ConfigError, ValueError, TypeError: As `request`; what could be sent goes on.
        """
        ms = maybe_ms(timeout, "timeout", least=0)
        over = ms == 0

        def wake() -> None:
            nonlocal over
            over = True
            self._waiters.wake()

        cancel = self._exchange.clock.call_later(ms, wake) if ms else None
        try:
            while self._under_way:
                if over:
                    text = f"{self._open} of {len(self._pendings)} messages have not ended within {ms} ms; they go on"
                    raise Timeout(text, code="wait.over")
                await self._news()
        finally:
            if cancel is not None:
                cancel()
        receipts = (receipt for _, receipt in sorted(self._receipts.items(), key=lambda item: item[0]))
        return Receipts(receipts, self._pendings[0].stages if len(self._pendings) == 1 else ())

    async def __aiter__(self) -> AsyncIterator[Receipt[T]]:
        """Each receipt as it comes. Raises as awaiting does."""
        given = 0
        while True:
            fresh = list(self._receipts.values())[given:]
            given += len(fresh)
            for receipt in fresh:
                yield receipt
            if given < len(self._receipts):
                continue
            if not self._under_way:
                return
            await self._news()

    async def _news(self) -> None:
        self._waiting += 1
        try:
            await self._waiters.wait()
        except asyncio.CancelledError:
            if self._waiting == 1:
                for pending in self._pendings:
                    self._exchange.giving_up.begin(pending)
            raise
        finally:
            self._waiting -= 1

    @property
    def _under_way(self) -> bool:
        if self._error is not None:
            raise self._error
        return self._open > 0

    async def deliver(self, n: int, deliver: Callable[[], Awaitable[None]]) -> None:
        """Carry out one delivery. What it raises, whoever waits for the group is told."""
        try:
            await deliver()
        except (ReachError, ValueError, TypeError) as error:
            self._error = self._error or error
            self._exchange.drop(self._pendings[n])
            self._waiters.wake()

    def _look(self, n: int) -> None:
        pending = self._pendings[n]
        if not pending.legs:
            return  # a receipt of a round before this one may still be taken back
        for leg, record in sorted(pending.receipts.items()):
            if (n, leg) not in self._receipts:
                self._receipts[n, leg] = receipt_of(record, self._returns)
        self._waiters.wake()

    def _ended(self, n: int) -> None:
        self._exchange.drop(self._pendings[n])
        self._look(n)
        self._open -= 1
        self._waiters.wake()


def check_wanted(want: object, until: object, best_by: object) -> None:
    """What a group may be asked for.

    Raises:
        ValueError: Something that gather cannot do.
    """
    for name, value, only in (("want", want, "all"), ("until", until, "settled"), ("best_by", best_by, None)):
        if value != only:
            raise ValueError(f"gather cannot do {name}={value!r}: it waits for all receipts, {name}={only!r}")


def targets_of(target: str | Sequence[str]) -> tuple[str, ...]:
    """The targets of a list, one message each.

    Raises:
        ValueError: None at all, or too many.
        TypeError: Neither a target nor a sequence of them.
    """
    check_many("target", (target,) if isinstance(target, str) else target)
    targets = (target,) if isinstance(target, str) else tuple(target)
    if not 1 <= len(targets) <= MAX_TARGETS:
        raise ValueError(f"{len(targets)} targets: at least 1 and at most {MAX_TARGETS}")
    return targets
