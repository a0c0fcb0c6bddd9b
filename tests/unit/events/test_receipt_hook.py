"""The receipt hook of an archiver: every end of a leg once, refusals and absences bounded, and nothing of its address in a log."""

import asyncio
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import msgspec
import pytest

from reach.backend.memory_backend import MemoryBackend
from reach.errors import ConfigError
from reach.events import receipt_hook
from reach.events.receipt_hook import MAX_TRIES, Address, Post, ReceiptHook, posts_of

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


async def test_a_refusal_that_may_pass_is_tried_again_and_another_is_not(
    listener: Listener, caplog: pytest.LogCaptureFixture
) -> None:
    backend = await opened()
    hook = ReceiptHook(backend, Address(listener.url), [0], "w1")
    for statuses, posted, tries in (([500, 429], 1, 3), ([400], 0, 1), ([302], 0, 1), ([503] * 9, 0, MAX_TRIES)):
        listener.heard.clear()
        listener.statuses = list(statuses)
        before = hook.posted
        await backend.record(0, msgspec.json.encode([END]))
        await hook.run_once()
        assert (hook.posted - before, len(listener.heard), len(set(listener.keys))) == (posted, tries, 1)
    assert hook.given_up == 3
    assert "not posted" in caplog.text
    assert not any(word in repr(one.__dict__) for one in caplog.records for word in ("secret", "hidden", "word@"))


async def test_nobody_listens(listener: Listener) -> None:
    backend = await opened()
    listener.shutdown()
    listener.server_close()
    await backend.record(0, msgspec.json.encode([END]))
    hook = ReceiptHook(backend, Address(listener.url), [0], "w1")
    await hook.run_once()
    assert (hook.posted, hook.given_up) == (0, 1)


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
