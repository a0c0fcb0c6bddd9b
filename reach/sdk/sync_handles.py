"""What `SyncReach` gives back: handles and groups whose calls wait."""

from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any, Generic, TypeVar, overload

from reach.sdk.durations import Duration
from reach.sdk.gathering import Group
from reach.sdk.handle import Handle, MessageStatus
from reach.sdk.loop_thread import LoopThread
from reach.sdk.pending import Progress
from reach.sdk.receipts import Receipt, Receipts

T = TypeVar("T")

_END: Any = object()


class SyncHandle:
    """A message that was accepted: what `Handle` is for a program without an event loop. Safe for many threads.

    Attributes:
        msg_id: Its id; a `key` gives the same id each time.
    """

    def __init__(self, thread: LoopThread[Any], handle: Handle) -> None:
        """Made by `SyncReach.send`."""
        self.msg_id = handle.msg_id
        self._thread = thread
        self._handle = handle

    def status(self) -> MessageStatus:
        """Ask the ledger where the message is.

        Raises:
            BackendError: Redis cannot be asked.
        """
        return self._thread.call(self._handle.status)

    @overload
    def receipt(self, timeout: Duration | None = None) -> Receipt[Any]: ...
    @overload
    def receipt(self, timeout: Duration | None = None, *, returns: type[T]) -> Receipt[T]: ...
    def receipt(self, timeout: Duration | None = None, *, returns: Any = Any) -> Receipt[Any]:
        """Wait for the receipt: of the only leg, or of the first one with scope all. Arguments and errors as `Handle.receipt`."""
        return self._thread.call(lambda: self._handle.receipt(timeout, returns=returns))

    @overload
    def receipts(self, timeout: Duration | None = None) -> Receipts[Any]: ...
    @overload
    def receipts(self, timeout: Duration | None = None, *, returns: type[T]) -> Receipts[T]: ...
    def receipts(self, timeout: Duration | None = None, *, returns: Any = Any) -> Receipts[Any]:
        """Wait until every leg has ended. Arguments and errors as `Handle.receipts`."""
        return self._thread.call(lambda: self._handle.receipts(timeout, returns=returns))

    def cancel(self) -> bool:
        """End what is still open of it. True if it is cancelled, False if it had ended. Errors as `Handle.cancel`."""
        return self._thread.call(self._handle.cancel)

    def answer(self, value: object, *, leg: int | None = None) -> None:
        """Answer what is asked (`progress` gives it as kind `input_required`). Arguments and errors as `Handle.answer`."""
        self._thread.call(lambda: self._handle.answer(value, leg=leg))

    def progress(self) -> Iterator[Progress]:
        """What the handler tells on the way, and what it asks, until the end. Whoever reads too slowly misses the oldest (256 are kept)."""
        return each(self._thread, self._handle.progress)


class SyncGroup(Generic[T]):
    """The answers to one `gather`: `for receipt in group` gives each as it comes, `group.receipts()` all of them; any number of times."""

    def __init__(self, thread: LoopThread[Any], group: Group[T]) -> None:
        """Made by `SyncReach.gather`."""
        self._thread = thread
        self._group = group

    def __iter__(self) -> Iterator[Receipt[T]]:
        """Each receipt as it comes. Leaving ends this wait alone."""
        return each(self._thread, lambda: aiter(self._group))

    def receipts(self, timeout: Duration | None = None) -> Receipts[T]:
        """Wait until every leg has ended. Arguments, order and errors as `Group.receipts`."""
        return self._thread.call(lambda: self._group.receipts(timeout))


def each(thread: LoopThread[Any], start: Callable[[], AsyncIterator[T]]) -> Iterator[T]:
    """The items of an async iterator, which runs in the loop only while one is waited for."""
    items = start()
    while True:
        item: T = thread.call(lambda: anext(items, _END))
        if item is _END:
            return
        yield item
