"""The receipt hook of an archiver: every end of a leg once, refusals and absences bounded, and nothing of its address in a log."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import msgspec
import pytest

from reach.backend.memory_backend import MemoryBackend
from reach.errors import BackendUnavailable, ConfigError
from reach.events import receipt_hook
from reach.events.receipt_hook import Address, Post, ReceiptHook, posts_of

END = {"point": "agent.completed", "msg_id": "m1", "leg": 0, "attempt": 1, "final": True, "receipt": {"output": 1.50}}
RUN = {"point": "agent.completed", "msg_id": "m1", "code": "handler.error"}


class Listener(ThreadingHTTPServer):
    """Takes posts; answers with these statuses, one after the other, then 204."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.statuses: list[int] = []
        self.heard: list[tuple[str, dict[str, str], Any]] = []

    @property
    def url(self) -> str:
        return f"http://user:word@127.0.0.1:{self.server_port}/in/secret?key=hidden"

    @property
    def keys(self) -> list[str]:
        return [headers["Idempotency-Key"] for _, headers, _ in self.heard]


class Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        server = self.server
        assert isinstance(server, Listener)
        body = self.rfile.read(int(self.headers["Content-Length"]))
        server.heard.append((self.path, dict(self.headers), msgspec.json.decode(body)))
        self.send_response(server.statuses.pop(0) if server.statuses else 204)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Nothing."""


@pytest.fixture
def listener() -> Iterator[Listener]:
    server = Listener()
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture(autouse=True)
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(receipt_hook, "FIRST_WAIT_MS", 1)
    monkeypatch.setattr(receipt_hook, "AWAY_MS", 20)


async def opened() -> MemoryBackend:
    backend = MemoryBackend(env="dev")
    await backend.open()
    return backend


async def test_ends_are_posted_with_what_is_kept_of_them(listener: Listener) -> None:
    backend = await opened()
    left_out = {**END, "msg_id": "m2", "receipt": None, "left_out": {"why": "hash"}}
    await backend.record(0, msgspec.json.encode([RUN, END, left_out, {"final": "true"}]))
    hook = ReceiptHook(backend, Address(listener.url, "t0ken"), [0], "w1")
    assert await hook.run_once() == {"posted": 2}
    assert await hook.run_once() == {}
    path, headers, body = next(one for one in listener.heard if one[2]["msg_id"] == "m1")
    assert (path, headers["Authorization"], body["receipt"]) == (
        "/in/secret?key=hidden",
        "Bearer t0ken",
        {"output": 1.5},
    )
    assert len(set(listener.keys)) == 2
    await hook.close()


async def until_through(hook: ReceiptHook, runs: int = 1_000) -> None:
    """Run it until it holds nothing."""
    for _ in range(runs):
        with suppress(BackendUnavailable):  # it says that its address is away
            await hook.run_once()
        if not hook.held:
            return
        await asyncio.sleep(0.002)
    raise AssertionError(f"{hook.held} are held")


async def test_a_refusal_that_may_pass_is_tried_again_and_another_is_not(
    listener: Listener, caplog: pytest.LogCaptureFixture
) -> None:
    backend = await opened()
    hook = ReceiptHook(backend, Address(listener.url), [0], "w1")
    for statuses, posted, tries in (([500, 429], 1, 3), ([400], 0, 1), ([302], 0, 1), ([503] * 9, 1, 10)):
        listener.heard.clear()
        listener.statuses = list(statuses)
        before = hook.posted
        await backend.record(0, msgspec.json.encode([{**END, "n": len(statuses)}]))
        await until_through(hook)
        assert (hook.posted - before, len(listener.heard), len(set(listener.keys))) == (posted, tries, 1)
    assert hook.given_up == 2
    assert "not posted" in caplog.text
    assert not any(word in repr(one.__dict__) for one in caplog.records for word in ("secret", "hidden", "word@"))


async def test_while_the_address_is_away_a_few_are_held_and_the_others_wait_in_redis(
    listener: Listener, caplog: pytest.LogCaptureFixture
) -> None:
    """However long that is: none is given up, all come when it is back."""
    backend = await opened()

    class Away(Address):
        is_away, tries = True, 0

        def post(self, post: Post) -> int:
            self.tries += 1
            if self.is_away:
                raise ConnectionRefusedError
            return super().post(post)

    address = Away(listener.url)
    hook = ReceiptHook(backend, address, [0], "w1")
    for number in range(30):
        await backend.record(0, msgspec.json.encode([{**END, "n": 10 * number + each} for each in range(10)]))
    away = 0
    while address.tries < 300:
        try:
            await hook.run_once()
        except BackendUnavailable:
            away += 1
        await asyncio.sleep(0.002)
    assert (hook.posted, hook.given_up, hook.held) == (0, 0, 100)
    assert away > 0
    address.is_away = False
    while hook.posted < 300:
        with suppress(BackendUnavailable):
            await hook.run_once()
    assert (hook.posted, hook.given_up, hook.missed, hook.held) == (300, 0, 0, 0)
    assert len(set(listener.keys)) == 300
    assert await hook.run_once() == {}
    await hook.close()


async def test_one_that_alone_is_not_taken_is_given_up_and_stops_no_other(listener: Listener) -> None:
    backend = await opened()

    class Choosy(Address):
        def post(self, post: Post) -> int:
            return 500 if b'"code":"poison"' in post.body else super().post(post)

    hook = ReceiptHook(backend, Choosy(listener.url), [0], "w1")
    await backend.record(0, msgspec.json.encode([{**END, "code": "poison"}]))
    for number in range(20):
        await backend.record(0, msgspec.json.encode([{**END, "attempt": number}]))
        with suppress(BackendUnavailable):
            await hook.run_once()
        await asyncio.sleep(0.04)
    await until_through(hook)
    assert (hook.posted, hook.given_up) == (20, 1)


async def test_what_redis_lets_go_while_it_is_held_is_posted_or_told(listener: Listener) -> None:
    backend = await opened()
    for number in range(2):
        await backend.record(0, msgspec.json.encode([{**END, "attempt": number}]))
    listener.statuses = [503] * 2
    posted = ReceiptHook(backend, Address(listener.url), [0], "w1", take_over_ms=0)
    assert await posted.run_once() == {}
    await backend.set_meta("meta", "max_events", b"1")
    await backend.close()
    await backend.open()
    await backend.record(0, b"[]")
    await until_through(posted)
    assert (posted.posted, posted.given_up, posted.missed) == (2, 0, 0)
    await posted.close()


async def test_who_ends_with_receipts_that_nobody_else_has_counts_them(listener: Listener) -> None:
    backend = await opened()
    await backend.record(0, msgspec.json.encode([END]))
    listener.statuses = [503] * 9
    hook = ReceiptHook(backend, Address(listener.url), [0], "w1", take_over_ms=0)
    await hook.run_once()
    await backend.set_meta("meta", "max_events", b"1")
    await backend.close()
    await backend.open()
    await backend.record(0, b"[]")
    await hook.run_once()
    await hook.close()
    assert (hook.posted, hook.given_up, hook.missed) == (0, 1, 0)


async def test_what_is_held_is_kept_from_others(listener: Listener) -> None:
    backend = await opened()
    await backend.record(0, msgspec.json.encode([END]))
    listener.statuses = [503] * 3
    first = ReceiptHook(backend, Address(listener.url), [0], "w1", take_over_ms=60_000)
    await first.run_once()
    second = ReceiptHook(backend, Address(listener.url), [0], "w2", take_over_ms=60_000)
    assert await second.run_once() == {}
    assert len(listener.heard) == 1
    await until_through(first)
    assert (first.posted, second.posted) == (1, 0)


async def test_what_was_not_finished_comes_again_with_the_same_key(listener: Listener) -> None:
    backend = await opened()
    await backend.record(0, msgspec.json.encode([END]))

    class Killed(Address):
        def post(self, post: Post) -> int:
            assert super().post(post) == 204
            raise asyncio.CancelledError

    first = ReceiptHook(backend, Killed(listener.url), [0], "w1")
    with pytest.raises(asyncio.CancelledError):
        await first.run_once()
    await first.close()
    second = ReceiptHook(backend, Address(listener.url), [0], "w2", take_over_ms=0)
    assert await second.run_once() == {"posted": 1}
    assert len(listener.keys) == 2
    assert len(set(listener.keys)) == 1


@pytest.mark.parametrize(
    "batch", [b"", b"junk", b'["\xff","final":true]', b'[1,"\\"final\\":true"]', b'[{"final":true}']
)
def test_what_is_no_batch_has_no_ends(batch: bytes) -> None:
    assert list(posts_of(0, batch)) == []


def test_half_a_character_in_a_batch_hides_no_end() -> None:
    batch = rb'[{"msg_id":"m1","envelope":{"x":"\ud83d"}},{"msg_id":"m2","final":true}]'
    assert [msgspec.json.decode(post.body)["msg_id"] for post in posts_of(0, batch)] == ["m2"]


@pytest.mark.parametrize(
    "url",
    ["", "x", "ftp://h/", "http://", "http://h:x/", "http://[/", "http://h/a b", "http://h/\u00e4", "http://h/\x7f"],
)
def test_what_is_no_address_is_refused(url: str) -> None:
    with pytest.raises(ConfigError, match="receipt-hook"):
        Address(url)
