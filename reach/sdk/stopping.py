"""When a process that serves agents is told to end."""

import asyncio
import contextlib
import signal
import threading
from collections.abc import Iterator

from reach.service import cut


class Stop:
    """That somebody wants an end: SIGTERM or SIGINT, where this is the main thread. A second signal has its old meaning."""

    def __init__(self) -> None:
        self.event = asyncio.Event()
        self._scope: asyncio.Timeout | None = None
        self._loop = asyncio.get_running_loop()

    def set(self) -> None:
        """Want it."""
        self.event.set()
        if self._scope is not None:
            cut(self._scope)

    @contextlib.contextmanager
    def interrupting(self, scope: asyncio.Timeout) -> Iterator[None]:
        """What lies within `scope` ends as well."""
        self._scope = scope
        try:
            yield
        finally:
            self._scope = None

    @contextlib.contextmanager
    def signals(self) -> Iterator[None]:
        """Listen to the signals within, together with the other agents of this loop."""
        stops = _STOPS.setdefault(self._loop, set())
        if not stops and threading.current_thread() is threading.main_thread():
            for number in _SIGNALS:
                with contextlib.suppress(NotImplementedError):  # Windows: there Ctrl-C alone ends it
                    self._loop.add_signal_handler(number, _got, self._loop, number)
        stops.add(self)
        try:
            yield
        finally:
            stops.discard(self)
            if not stops:
                _STOPS.pop(self._loop, None)
                if threading.current_thread() is threading.main_thread():
                    for number in _SIGNALS:
                        self._loop.remove_signal_handler(number)


_SIGNALS = (signal.SIGTERM, signal.SIGINT)
_STOPS: dict[asyncio.AbstractEventLoop, set[Stop]] = {}


def _got(loop: asyncio.AbstractEventLoop, number: signal.Signals) -> None:
    loop.remove_signal_handler(number)
    for stop in list(_STOPS.get(loop, ())):
        stop.set()
