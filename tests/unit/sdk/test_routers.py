"""What the services of a router have in common: the time of the server, and nobody else's."""

import json
import random
import uuid

import pytest

from reach.backend.keys import KeySpace
from reach.backend.memory_backend import MemoryBackend, Store
from reach.sdk.routers import router_services
from reach.tracing.hops import HopRecorder
from reach.tracing.time_base import TimeBase
from tests.manual_clock import ManualClock

HOUR_MS = 3_600_000


@pytest.mark.parametrize("wrong_by_ms", [HOUR_MS, -HOUR_MS])
async def test_a_worker_whose_clock_is_set_wrong_ends_nothing_of_the_backlog(wrong_by_ms: int) -> None:
    clock = ManualClock()
    store = Store(clock)
    backend = MemoryBackend(store=store)
    await backend.open()
    await backend.register(
        "a", b'{"agent_id":"a","instance_id":"i","capabilities":[{"name":"work"}]}', "i", b"{}", None
    )
    await backend.open_inbox(0, "a")
    envelope = {
        "msg_id": str(uuid.uuid4()),
        "type": "request",
        "timestamp": 1,
        "source": {"agent_id": "tester"},
        "target": {"pattern": "capability:work"},
    }
    await backend.submit(0, "normal", json.dumps(envelope).encode())
    base = TimeBase(lambda: clock.monotonic_ms() * 1000, fallback_us=lambda: (clock.wall_ms() + wrong_by_ms) * 1000)
    hops = HopRecorder(backend.record, base, ask_ms=backend.now_ms)
    services = {
        service.name: service for service in router_services(backend, hops, [0], "w", clock=clock, rng=random.Random(1))
    }
    # Its first moments: it has not yet asked anybody for the time to write its records by.
    await services["watcher"].run_once()
    await services["router"].run_once()
    stream = store.stream(KeySpace("dev").inbox(0, "a", "normal"))
    assert stream is not None
    assert [fields[b"m"].decode() for _, fields in stream.all()] == [envelope["msg_id"]]
