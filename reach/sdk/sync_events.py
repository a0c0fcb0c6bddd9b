"""The hop records of an env for programs without an event loop: the same questions, which wait."""

from collections.abc import Iterator, Sequence
from typing import Any

from reach.events.asking import Events
from reach.events.decided import Decisions
from reach.events.recordings import Recording
from reach.events.store import Query
from reach.events.traced import Trace
from reach.sdk.client import Reach
from reach.sdk.loop_thread import LoopThread
from reach.sdk.sync_handles import each


class SyncEvents:
    """`Events`, which waits. Arguments and errors as there."""

    def __init__(self, thread: LoopThread[Reach], events: Events) -> None:
        """Made by `SyncReach.events`."""
        self._thread, self._events = thread, events

    def with_store(self, url: str) -> "SyncEvents":
        """The same questions, also to this event store. `close` it in the end."""

        async def opened() -> Events:
            return self._events.with_store(url)

        return SyncEvents(self._thread, self._thread.call(opened))

    def close(self) -> None:
        """Let go of the event store. Twice is once."""
        self._thread.call(self._events.close)

    def now_us(self) -> int:
        """This moment by the clock of Redis, which all records go by."""
        return self._thread.call(self._events.now_us)

    def find(self, query: Query | None = None) -> list[dict[str, Any]]:
        """The newest records that fit, oldest first."""
        return self._thread.call(lambda: self._events.find(query))

    def pages(self, query: Query | None = None) -> Iterator[list[dict[str, Any]]]:
        """All records that fit, in pages, the newest page first."""
        return each(self._thread, lambda: self._events.pages(query))

    def follow(self, query: Query | None = None) -> Iterator[dict[str, Any]]:
        """The records that fit as they come, for ever: leave the loop when you have enough."""
        return each(self._thread, lambda: self._events.follow(query))

    def trace(self, name: str) -> Trace | None:
        """The conversation that `name` is, or that this message belongs to, as a tree; None: nothing is recorded of it."""
        return self._thread.call(lambda: self._events.trace(name))

    def follow_trace(self, name: str) -> Iterator[Trace]:
        """The same, now and each time that something has happened, for ever."""
        return each(self._thread, lambda: self._events.follow_trace(name))

    def explain(self, msg_id: str) -> Decisions | None:
        """Why a message went where it went; None: nothing is recorded of it."""
        return self._thread.call(lambda: self._events.explain(msg_id))

    def recordings(self, *, correlation_ids: Sequence[str] = (), msg_ids: Sequence[str] = ()) -> list[Recording]:
        """Messages as they were sent, in the order in which they came."""
        return self._thread.call(lambda: self._events.recordings(correlation_ids=correlation_ids, msg_ids=msg_ids))
