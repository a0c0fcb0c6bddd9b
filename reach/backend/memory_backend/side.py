"""What every side of the memory backend holds, and how a step runs: whole, alone, and with the hooks of a test around it."""

import asyncio
from collections.abc import Callable, Sequence
from typing import TypeVar

from reach.backend.keys import KeySpace
from reach.backend.memory_backend.channels import Ear
from reach.backend.memory_backend.partition import Partition
from reach.backend.memory_backend.store import Store
from reach.backend.memory_backend.streams import Entry, Group, Stream, parse_id
from reach.backend.memory_backend.waiting import Waiter
from reach.errors import BackendUnavailable

T = TypeVar("T")

Hook = Callable[[str], None]
"""Called with the name of a step. Raising before it: nothing was done. Raising after it: it was, and the reply is lost."""


class Side:
    """The store and the names of the keys of one env. A step holds the store's lock from start to end and awaits nothing."""

    def __init__(
        self, store: Store, keys: KeySpace, *, before_step: Hook | None = None, after_step: Hook | None = None
    ) -> None:
        self._store = store
        self._keys = keys
        self._before_step = before_step
        self._after_step = after_step
        self._waiting: set[Waiter] = set()
        self._ears: dict[str, Ear] = {}  # by agent
        self._closed = False
        self.partitions = 1

    def _partition(self, number: int) -> Partition:
        """What a step sees; made inside the step, since it reads the clock."""
        return Partition(self._store, self._keys, number)

    async def _step(self, name: str, step: Callable[[], T]) -> T:
        """Run one step. Gives way once before it, as a round trip would, so that a busy caller does not starve the others."""
        await asyncio.sleep(0)
        self._before(name)
        with self._store.lock:
            self._store.expire()
            done = step()
        self._after(name)
        return done

    async def _wait(self, name: str, keys: Sequence[str], step: Callable[[], T], block_ms: int) -> T:
        """Run a reading step until it finds something (is true) or `block_ms` are over; it is tried again at each write to `keys`.

        Cancelling is safe: what a step has found is returned without another await.
        """
        await asyncio.sleep(0)
        self._before(name)
        clock = self._store.clock
        end_ms = clock.monotonic_ms() + block_ms
        while True:
            self._refuse_when_closed()
            with self._store.lock:
                self._store.expire()
                found = step()
                left_ms = end_ms - clock.monotonic_ms()
                if found or left_ms <= 0:
                    break
                waiter = self._store.room.enter(keys)
            self._waiting.add(waiter)
            take_back = clock.call_later(left_ms, waiter.wake)
            try:
                await waiter.wait()
            finally:
                take_back()
                self._waiting.discard(waiter)
                with self._store.lock:
                    self._store.room.leave(waiter, keys)
        self._after(name)
        return found

    def _before(self, name: str) -> None:
        self._refuse_when_closed()
        if self._before_step is not None:
            self._before_step(name)

    def _after(self, name: str) -> None:
        if self._after_step is not None:
            self._after_step(name)

    def _refuse_when_closed(self) -> None:
        if self._closed:
            raise BackendUnavailable("the memory backend is closed")

    # ---------------------------------------------------------------- streams, healed where they are lost

    def _own_stream(self, key: str) -> Stream:
        """A stream of the table, made anew where it is missing or something else lies there."""
        self._store.clear_wrong(key, "stream")
        return self._store.make_stream(key)

    def _own_group(self, key: str, group: str) -> Group:
        """Its group, at id 0 so that nothing that was written before is missed."""
        return self._own_stream(key).make_group(group)

    def _behind(self, key: str, cursor: str, max_entries: int) -> list[Entry]:
        """XREAD without waiting; what is no stream is freed, and has nothing to read yet."""
        self._store.clear_wrong(key, "stream")
        stream = self._store.stream(key)
        return stream.after(parse_id(cursor), max_entries) if stream is not None else []

    def _ends_before(self, key: str, cursor: str) -> bool:
        """Whether a stream was made anew after its ids had run ahead of the clock: nothing in it will ever lie behind this cursor."""
        stream = self._store.stream(key)
        return stream is not None and len(stream) > 0 and stream.last_id < parse_id(cursor)

    def _discard(self, key: str, group_name: str, ids: Sequence[str]) -> None:
        """XACK and XDEL. A stream that is gone has none of them."""
        if self._store.type_of(key) != "stream":
            return
        stream = self._own_stream(key)
        group = stream.group(group_name)
        for entry_id in ids:
            if group is not None:
                group.ack(entry_id)
        stream.delete(ids)
