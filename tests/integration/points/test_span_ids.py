"""Whatever happens, no two spans share an id, no span is an orphan, and what is exported twice is the same twice."""

import asyncio
import logging
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.faults.stages import MemoryStage
from tests.integration.points.test_points import span
from tests.integration.points.town import Town

DO = st.sampled_from(["ok", "fail once", "fail", "wait once", "reject", "question"])
ASKS = st.tuples(
    st.just("ask"),
    st.fixed_dictionaries(
        {"do": DO},
        optional={
            "key": st.sampled_from(["k1", "k2"]),
            "scope": st.just("all"),
            "max_attempts": st.integers(1, 3),
            "order_key": st.just("line"),
        },
    ),
)
STEPS = st.one_of(
    ASKS,
    st.tuples(st.just("advance"), st.sampled_from([0, 1, 2_000, 20_000])),
    st.tuples(st.sampled_from(["kill", "requeue"]), st.none()),
)


@pytest.fixture(autouse=True)
def no_log() -> Iterator[None]:
    """Handlers fail here, each with a word."""
    logging.disable()
    yield
    logging.disable(logging.NOTSET)


@settings(max_examples=10, deadline=None)
@given(st.lists(STEPS, min_size=1, max_size=6))
def test_no_two_spans_share_an_id(steps: list[tuple[str, Any]]) -> None:
    asyncio.run(_play(steps))


async def _play(steps: list[tuple[str, Any]]) -> None:
    async with Town(stage=MemoryStage()) as town:
        await town.router()
        await town.agent("a1")
        await town.agent("a2")
        await town.client()
        for what, how in steps:
            await _step(town, what, how)
        await town.advance(100_000)
        await town.until(town.quiet, "the end of every message")
        records = await town.records()
    spans = Counter((one.trace_id, one.span_id) for one in records)
    assert [name for name, count in spans.items() if count > 1] == []
    for one in records:
        assert not one.parent_span_id or (one.trace_id, one.parent_span_id) in spans, f"{one.point} is an orphan"
        assert span(one).to_json() == span(one).to_json()


async def _step(town: Town, what: str, how: Any) -> None:
    if what == "ask":
        options = {name: value for name, value in how.items() if name != "do"}
        if options.get("scope") == "all":
            options.pop("order_key", None)
        town.ask({"do": how["do"]}, timeout=60, ttl=60, **options)
        await town.settle()
    elif what == "advance":
        await town.advance(how)
    elif what == "kill":
        await town.flush()
        town.processes["a1"].die()
        await town.advance(0)
    else:
        letters = town.clients["client"].dead_letters
        async for letter in letters.list():
            await letters.requeue(letter)
