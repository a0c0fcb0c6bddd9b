"""The example about a question, and what docs/questions.md says of it."""

import asyncio

import pytest

from examples.approval.__main__ import main
from examples.approval.clerk import Approval, Order, Till, clerk
from reach.testing import TestReach
from tests.rules.files import read


async def test_it_pays_what_was_approved_and_nothing_else(capsys: pytest.CaptureFixture[str]) -> None:
    await main()
    said = capsys.readouterr().out.splitlines()
    assert said[-1] == "paid: ORD-1, ORD-2, ORD-4"
    assert "  ORD-3 was refused by ann" in said


async def test_a_clerk_that_dies_while_it_waits_pays_once() -> None:
    till = Till()
    first, second = clerk(till), clerk(till)
    async with TestReach(first, agent_id="shop") as bus:
        handle = await bus.send("refund", Order("ORD-7", 500), key="ORD-7")
        await bus.settle()
        await bus.kill(first)
        await bus.advance(60)
        await bus.reach.answer(handle.msg_id, Approval(ok=True, by="ann"))
        await bus.start(second)
        await bus.advance(5)
        assert (await handle.receipt()).output == "T-1"
    assert till.paid == ["ORD-7"]


async def test_the_page_shows_the_example_as_it_is() -> None:
    page, code = read("docs/questions.md"), await asyncio.to_thread(read, "examples/approval/clerk.py")
    shown = page.split("```python\n")[1].split("```")[0]
    lines = [line.strip() for line in shown.splitlines() if line.strip()]
    assert lines, "no snippet"
    assert set(lines) <= {line.strip() for line in code.splitlines()}
