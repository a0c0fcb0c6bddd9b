"""The bridge over real sockets: what it takes from Alertmanager, what it refuses, and that no address of a chat gets into a log."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from reach.clock import SystemClock
from reach.errors import ConfigError
from reach.settings import load
from reach.testing import wait_until
from reach.tracing.readings import Readings
from reach_worker.alert_bridge.bridge import Bridge, open_bridge
from reach_worker.alert_bridge.chats.port import Outgoing
from reach_worker.alert_bridge.listener import MAX_BODY_BYTES
from reach_worker.alert_bridge.posting import NotPosted, post

NOTIFICATION = {
    "version": "4",
    "status": "firing",
    "alerts": [{"status": "firing", "labels": {"alertname": "ReachNoRouter"}, "annotations": {"summary": "告警"}}],
    "some": "field of a later version",
}
Chat = Callable[[str, bytes], tuple[int, bytes, str]]


@asynccontextmanager
async def chat_server(answer: Chat) -> AsyncIterator[str]:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        length = next(
            int(line.split(":")[1]) for line in head.splitlines() if line.lower().startswith("content-length")
        )
        status, body, more = answer(head.split(" ")[1], await reader.readexactly(length))
        writer.write(f"HTTP/1.1 {status} x\r\nContent-Length: {len(body)}\r\n{more}\r\n".encode() + body)
        await writer.drain()
        writer.close()
        await writer.wait_closed()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"


@asynccontextmanager
async def bridge(to: str, **options: str) -> AsyncIterator[Bridge]:
    settings = load({"REACH_ALERT_TO": to}, {"roles": "alert-bridge", "alert_listen": "127.0.0.1:0", **options})
    made = open_bridge(settings, clock=SystemClock())
    assert made is not None
    await made.start()
    try:
        yield made
    finally:
        await made.close()


async def request(
    port: int, path: str, body: bytes, method: str = "POST", *headers: str
) -> tuple[int, dict[str, object]]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    lines = [f"{method} {path} HTTP/1.1", "Host: x", f"Content-Length: {len(body)}", *headers, "", ""]
    writer.write("\r\n".join(lines).encode() + body)
    await writer.drain()
    answer = await reader.read()
    writer.close()
    await writer.wait_closed()
    head, _, rest = answer.partition(b"\r\n\r\n")
    return int(head.split()[1]), json.loads(rest)


def body() -> bytes:
    return json.dumps(NOTIFICATION).encode()


async def test_a_notification_goes_to_every_chat_or_to_the_one_that_is_named() -> None:
    told: list[str] = []

    def answer(path: str, _: bytes) -> tuple[int, bytes, str]:
        told.append(path)
        return 200, b'{"errcode":0}', ""

    async with chat_server(answer) as url, bridge(f"wecom={url}/w slack.ops={url}/s") as made:
        assert (await request(made.port, "/hooks/alertmanager", body())) == (200, {"alerts": 1})
        await wait_until(lambda: sorted(told) == ["/s", "/w"])
        await request(made.port, "/hooks/alertmanager/slack.ops", body())
        await wait_until(lambda: sorted(told) == ["/s", "/s", "/w"])
        status, found = await request(made.port, "/hooks/alertmanager", b"", "GET")
        assert status == 200
        assert found["chats"]["slack.ops"] == {"sent": 2, "told": 2, "lost": 0, "waiting": 0}  # type: ignore[index]
        assert url not in json.dumps(found)


async def test_what_is_no_notification_is_refused() -> None:
    async with bridge("generic=http://127.0.0.1:9/x") as made:
        assert (await request(made.port, "/hooks/alertmanager", b"{}"))[0] == 400
        assert (await request(made.port, "/hooks/alertmanager/teams", body()))[0] == 404
        assert (await request(made.port, "/", body()))[0] == 404
        assert (await request(made.port, "/hooks/alertmanager", body(), "PUT"))[0] == 405
        big = f"Content-Length: {MAX_BODY_BYTES + 1}"
        assert (await request(made.port, "/hooks/alertmanager", b"", "POST", big))[0] == 413
        assert (await request(made.port, "/hooks/alertmanager", b"", "POST", "Content-Length: x"))[0] == 411
        assert made.status() == {"chats": {"generic": {"sent": 0, "told": 0, "lost": 0, "waiting": 0}}}


async def test_a_token_is_asked_for_where_one_is_set() -> None:
    def answer(_: str, __: bytes) -> tuple[int, bytes, str]:
        return 204, b"", ""

    async with chat_server(answer) as url, bridge(f"generic={url}", alert_token="t0") as made:
        assert (await request(made.port, "/hooks/alertmanager", body()))[0] == 401
        assert (await request(made.port, "/hooks/alertmanager", body(), "POST", "Authorization: Bearer t1"))[0] == 401
        assert (await request(made.port, "/hooks/alertmanager", body(), "POST", "Authorization: Bearer t0"))[0] == 200
        await wait_until(lambda: made.outboxes["generic"].sent == 1)


async def test_a_full_outbox_is_busy_so_that_alertmanager_tells_it_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("reach_worker.alert_bridge.outbox.MAX_WAITING", 0)
    async with bridge("generic=http://127.0.0.1:9/x") as made:
        assert (await request(made.port, "/hooks/alertmanager", body()))[0] == 503


async def test_what_waits_is_sent_before_it_ends_and_the_key_is_in_no_log(caplog: pytest.LogCaptureFixture) -> None:
    answers = [(500, b"", ""), (200, b'{"errcode":0}', "")]

    def answer(_: str, __: bytes) -> tuple[int, bytes, str]:
        return answers.pop(0)

    async with chat_server(answer) as url:
        async with bridge(f"wecom={url}/send?key=hunter2") as made:
            await request(made.port, "/hooks/alertmanager", body())
            await wait_until(lambda: len(answers) < 2)
        assert made.outboxes["wecom"].told == 1
    assert "hunter2" not in caplog.text


@pytest.mark.parametrize(
    ("status", "more", "retry_after_ms"),
    [
        (200, "", 0),
        (302, "Location: http://127.0.0.1:1/\r\n", 0),
        (429, "Retry-After: 7\r\n", 7_000),
        (503, "Retry-After: soon\r\n", 0),
    ],
)
async def test_an_answer_is_an_answer_and_a_redirect_is_not_followed(
    status: int, more: str, retry_after_ms: int
) -> None:
    def answer(_: str, __: bytes) -> tuple[int, bytes, str]:
        return status, b"said", more

    async with chat_server(answer) as url:
        reply = await post(Outgoing(f"{url}/x", b"{}"))
    assert (reply.status, reply.body, reply.retry_after_ms) == (status, b"said", retry_after_ms)


@pytest.mark.parametrize(
    "url", ["http://127.0.0.1:1/hunter2", "http://127.0.0.1:1/a b?hunter2", "http://no.invalid/hunter2"]
)
async def test_what_cannot_be_posted_says_why_and_not_where(url: str) -> None:
    posting: Callable[[Outgoing], Awaitable[object]] = post
    with pytest.raises(NotPosted) as caught:
        await posting(Outgoing(url, b"{}"))
    assert str(caught.value)
    assert "hunter2" not in str(caught.value)


async def test_what_it_tells_prometheus_is_by_chat_and_has_no_address() -> None:
    def answer(path: str, _: bytes) -> tuple[int, bytes, str]:
        return (200, b'{"errcode":0}', "") if path == "/good" else (403, b"", "")

    async with chat_server(answer) as url, bridge(f"wecom={url}/good slack.ops={url}/hunter2") as made:
        first = told(made)
        assert {value for _, value in first.values()} == {0}, "counted from 0, so that the first one is an increase"
        assert "reach_alerts_last_sent_timestamp_seconds" not in {name for name, _ in first}
        await request(made.port, "/hooks/alertmanager", body())
        await wait_until(lambda: made.outboxes["wecom"].sent == 1 and made.outboxes["slack.ops"].lost == 1)
        found = told(made)
    at_s = found.pop(("reach_alerts_last_sent_timestamp_seconds", ("wecom",)))[1]
    assert abs(at_s - SystemClock().wall_ms() / 1000) < 60
    assert {key: value for key, (_, value) in found.items() if value} == {
        ("reach_alerts_sent_total", ("wecom",)): 1,
        ("reach_alerts_failed_total", ("slack.ops",)): 1,
        ("reach_alerts_dropped_total", ("slack.ops",)): 1,
    }


def told(made: Bridge) -> dict[tuple[str, tuple[str, ...]], tuple[str, float]]:
    """What it says of itself, by metric and labels: (kind, value)."""
    readings = Readings()
    readings.add(made.readings)
    return {
        (metric.name, labels): (metric.kind, value)
        for metric, values in readings.numbers()
        for labels, value in values.items()
    }


async def test_a_port_that_is_taken_is_told() -> None:
    async with bridge("generic=http://127.0.0.1:9/x") as made:
        with pytest.raises(ConfigError, match="--alert-listen"):
            async with bridge("generic=http://127.0.0.1:9/x", alert_listen=f"127.0.0.1:{made.port}"):
                pass


def test_the_role_without_anybody_to_tell_is_refused() -> None:
    with pytest.raises(ConfigError, match="--alert-to"):
        load({}, {"roles": "alert-bridge"})
    with pytest.raises(ConfigError, match="host"):
        load({}, {"alert_listen": "9095"})
    with pytest.raises(ConfigError) as caught:
        open_bridge(load({"REACH_ALERT_TO": "wecom=hunter2"}, {"roles": "alert-bridge"}), clock=SystemClock())
    assert "hunter2" not in str(caught.value)
