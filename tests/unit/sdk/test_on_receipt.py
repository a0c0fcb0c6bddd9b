"""`on_receipt=`: every receipt of a client is heard once, in order, and whatever the hook does breaks nothing."""

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

from reach import Agent, Reach, Receipt
from reach.envelope.receipt import ReceiptRecord, Status
from reach.errors import ConfigError
from reach.sdk import receipt_hook
from reach.sdk.receipt_hook import ReceiptHook
from reach.testing import wait_until


def echo() -> Agent:
    agent = Agent("echo")

    @agent.capability("echo")
    async def echo(body: Any) -> Any:
        return body

    return agent


def record(number: int) -> ReceiptRecord:
    return ReceiptRecord(msg_id=f"m{number}", status=Status.SUCCESS, code="ok")


@pytest.mark.parametrize("kind", ["sync", "async"])
async def test_it_hears_what_is_asked_sent_and_refused(kind: str) -> None:
    heard: list[Receipt[Any]] = []
    threads = set()

    def plain(receipt: Receipt[Any]) -> None:
        threads.add(threading.get_ident())
        heard.append(receipt)

    async def slow(receipt: Receipt[Any]) -> None:
        await asyncio.sleep(0)
        plain(receipt)

    async with Reach.embedded(echo(), agent_id="me", on_receipt=plain if kind == "sync" else slow) as reach:
        assert (await reach.request("echo", 1)).output == 1
        await reach.send("echo", 2)
        refused = await reach.request("echo", 3, type="no.such")
        assert not refused.ok
        await wait_until(lambda: len(heard) == 3)
    assert sorted((one.output or 0, one.code) for one in heard) == [(0, refused.code), (1, "ok"), (2, "ok")]
    assert (threading.get_ident() in threads) is (kind == "async")


async def test_a_hook_that_raises_is_told_and_receipts_go_on(caplog: pytest.LogCaptureFixture) -> None:
    heard = []

    def hook(receipt: Receipt[Any]) -> None:
        heard.append(receipt.output)
        raise ValueError("a secret") if receipt.output == 1 else KeyboardInterrupt

    async with Reach.embedded(echo(), on_receipt=hook) as reach:
        for number in (1, 2, 3):
            assert (await reach.request("echo", number)).output == number
    assert heard == [1, 2, 3]
    told = [one for one in caplog.records if "on_receipt failed" in one.getMessage()]
    assert told
    assert told[0].__dict__["msg_id"]


async def test_closing_lets_it_hear_what_waits_but_not_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    heard: list[str] = []

    async def quick(receipt: Receipt[Any]) -> None:
        heard.append(receipt.msg_id)

    hook = ReceiptHook(quick)
    for number in range(3):
        hook.hear(record(number))
    await hook.close()
    hook.hear(record(9))
    assert heard == ["m0", "m1", "m2"]

    monkeypatch.setattr(receipt_hook, "CLOSE_S", 0.01)

    async def stuck(_: Receipt[Any]) -> None:
        await asyncio.Event().wait()

    hook = ReceiptHook(stuck)
    hook.hear(record(1))
    await hook.close()


async def test_a_slow_hook_loses_the_oldest_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(receipt_hook, "MAX_WAITING", 2)
    heard: list[str] = []
    go = asyncio.Event()

    async def slow(receipt: Receipt[Any]) -> None:
        await go.wait()
        heard.append(receipt.msg_id)

    hook = ReceiptHook(slow)
    for number in range(4):
        hook.hear(record(number))
    go.set()
    await hook.close()
    assert (heard, hook.left_out) == (["m2", "m3"], 2)


async def test_what_cannot_be_called_is_refused() -> None:
    no: Callable[..., Any] = "no"  # type: ignore[assignment]
    with pytest.raises(ConfigError, match="on_receipt"):
        await Reach.embedded(on_receipt=no)
