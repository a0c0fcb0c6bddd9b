"""Messages that are written by hand, and an agent that answers what a test wants."""

import json
from collections.abc import Callable
from typing import Any

import msgspec

from reach import Agent
from tests.integration.spine import Spine, envelope, until


def written(**fields: Any) -> bytes:
    return json.dumps(envelope(**fields)).encode()


def with_body(body: bytes, **fields: Any) -> bytes:
    """An envelope with these bytes as its body."""
    return written(payload={"body": "HERE"}, **fields).replace(b'"HERE"', body)


async def refused(spine: Spine, data: bytes) -> dict[str, Any]:
    """Put it into the ingress; the receipt of its refusal."""
    before = len(await spine.mail())
    await spine.put({"e": data})

    async def told() -> list[dict[str, Any]]:
        return (await spine.mail())[before:]

    (receipt,) = await until(told, f"the refusal of {data[:200]!r}")
    assert receipt["status"] == "failed", receipt
    return receipt


def deep(levels: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(levels - 1):
        value = [value]
    return value


def answering(value: Callable[[Any], Any]) -> Agent:
    """An agent whose one capability gives what `value` makes of the body."""
    agent = Agent("maker")

    @agent.capability("make")
    async def make(body: Any) -> Any:
        return value(body)

    @agent.capability("echo")
    async def echo(body: Any) -> Any:
        return body

    @agent.capability("echo_raw")
    async def echo_raw(body: msgspec.Raw) -> msgspec.Raw:
        return body

    @agent.capability("echo_bytes")
    async def echo_bytes(body: bytes) -> bytes:
        return body

    return agent


def thrown(problem: BaseException) -> Any:
    raise problem
