"""What is asked of the hop records of real servers: the tree of a conversation, from Redis, from a store, and from both."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from reach import Agent, Context, Reach, Retry
from reach.backend import open_backend
from reach.backend.private_server import PrivateServer
from reach.events.archiver import Archiver
from reach.events.asking import Events
from reach.events.opening import open_store
from reach.events.store import Query
from reach.events.traced import Trace
from reach.sdk.replaying import replay
from tests.integration.sdk.world import router

pytestmark = pytest.mark.leaves_work(why="the archivers' group stays, as in life")


def town() -> list[Agent]:
    """A desk that asks a bank, which is busy once, and then a post."""
    desk, bank, post = Agent("desk"), Agent("bank"), Agent("post")

    @desk.capability("help")
    async def help_(body: object, ctx: Context) -> object:
        paid = await ctx.ask("capability:pay", body)
        await ctx.ask("capability:tell", body)
        return paid

    @bank.capability("pay")
    async def pay(body: object, ctx: Context) -> object:
        if ctx.attempt == 1:
            raise Retry(message="busy")
        return body

    @post.capability("tell")
    async def tell(body: object) -> object:
        return body

    return [desk, bank, post]


@pytest.fixture
async def reach(server: PrivateServer) -> AsyncIterator[Reach]:
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(router(server.url))
        for agent in town():
            await stack.enter_async_context(agent.running(url=server.url))
        yield await stack.enter_async_context(Reach.connect(server.url, agent_id="shop"))


async def traced(events: Events, name: str) -> Trace:
    """Once everything is recorded: seven points of each message, and those of a retry."""
    async with asyncio.timeout(10):
        async for found in events.follow_trace(name):
            if found.records == 27:
                return found
    raise AssertionError("never")


async def test_a_request_through_three_agents_with_one_retry_is_a_tree(reach: Reach) -> None:
    events = reach.events
    receipt = await reach.request("capability:help", {"order": 1})
    assert receipt.ok
    tree = await traced(events, receipt.msg_id)
    (root,) = tree.messages
    assert (root.msg_id, root.pattern, root.code, root.open) == (receipt.msg_id, "capability:help", "ok", False)
    pay, tell = root.children
    assert [child.pattern for child in (pay, tell)] == ["capability:pay", "capability:tell"]
    assert [(child.in_reply_to, child.in_run) for child in (pay, tell)] == [(root.msg_id, 0)] * 2
    assert [(run.attempt, run.agent, run.code) for run in pay.runs] == [(1, "bank", "handler.retry"), (2, "bank", "ok")]
    assert all(run.host and run.instance for run in pay.runs)
    assert all(run.wait_us is not None and run.run_us is not None for one in tree.walk() for run in one.runs)
    assert [mark.code for mark in pay.marks if mark.point == "message.retried"] == ["handler.retry"]
    assert (root.began_at_us, root.ended_at_us) == (tree.began_at_us, tree.ended_at_us)
    for child in (pay, tell):
        from_child = await events.trace(child.msg_id)
        assert from_child is not None
        assert from_child.messages == tree.messages
    assert await events.trace("nobody") is None


async def test_why_a_message_went_where_it_went(reach: Reach) -> None:
    await reach.routes.set("capability:pay", b'{"strategy": "round_robin"}')
    receipt = await reach.request("capability:help", {"order": 3})
    tree = await traced(reach.events, receipt.msg_id)
    pay = tree.messages[0].children[0]
    found = await reach.events.explain(pay.msg_id)
    assert found is not None
    assert (found.pattern, found.code, found.open, bytes(found.policy or b"")) == (
        "capability:pay",
        "ok",
        False,
        b'{"strategy": "round_robin"}',
    )
    assert [(one.attempt, one.strategy, one.chosen) for one in found.decisions] == [
        (0, "round_robin", ("bank",)),
        (2, "round_robin", ("bank",)),
    ]
    assert [(one.agent, one.chosen, one.filter) for one in found.decisions[0].candidates] == [("bank", True, "")]
    assert {one.policy for one in found.decisions} == {found.policy_digest}, "the policy of then is that of now"
    await reach.routes.set("capability:pay", b'{"strategy": "weighted_random"}')
    later = await reach.events.explain(pay.msg_id)
    assert later is not None
    assert later.decisions == found.decisions
    assert later.policy_digest not in {found.policy_digest, "none"}
    await reach.routes.remove("capability:pay")
    later = await reach.events.explain(pay.msg_id)
    assert later is not None
    assert later.policy_digest == "none", "no policy"
    help_ = await reach.events.explain(receipt.msg_id)
    assert help_ is not None
    assert {one.policy for one in help_.decisions} == {"none"}
    assert found.runs == pay.runs
    assert await reach.events.explain("nobody") is None


async def test_who_asked_whom_is_known_also_where_no_envelope_is_kept(reach: Reach) -> None:
    await reach.backend.set_meta("meta", "privacy", b"drop")
    receipt = await reach.request("capability:help", {"order": 5})
    tree = await traced(reach.events, receipt.msg_id)
    below = tree.messages[0].children
    assert [(one.source, one.in_reply_to, one.in_run) for one in below] == [("desk", receipt.msg_id, 0)] * 2
    (one,) = await reach.events.recordings(correlation_ids=[tree.conversations[0]])
    assert (one.envelope, one.why_not.startswith("its envelope is not kept")) == (None, True)
    assert one.answers == {}, "the ledger has its receipt yet"


async def test_what_was_sent_is_recorded_so_that_it_can_be_sent_again(reach: Reach) -> None:
    receipt = await reach.request("capability:help", {"order": 4}, headers={"shop": "7"})
    tree = await traced(reach.events, receipt.msg_id)
    assert [message.source for message in tree.walk()] == ["shop", "desk", "desk"]
    (one,) = await reach.events.recordings(correlation_ids=[tree.conversations[0]])
    assert one.envelope is not None
    assert (one.msg_id, one.envelope.headers) == (receipt.msg_id, {"shop": "7"})
    assert one.answers == {"desk": {"status": "success", "code": "ok", "output": {"order": 4}}}
    (told,) = [told async for told in replay(reach, [one])]
    assert (told.compared, told.differences) == ("answers", ())


async def test_what_redis_has_let_go_is_in_the_store_and_what_is_in_both_stands_there_once(
    reach: Reach, tmp_path: Path, server: PrivateServer
) -> None:
    receipt = await reach.request("capability:help", {"order": 2})
    kept = open_store(f"sqlite:{tmp_path}")
    archiver = Archiver(reach.backend, kept, range(reach.backend.partitions), "a1")
    tree = await traced(reach.events, receipt.msg_id)
    await archiver.run_once()
    both = reach.events.with_store(f"sqlite:{tmp_path}")
    assert await both.trace(receipt.msg_id) == tree
    assert len(await both.find(Query(fields={"msg_id": (receipt.msg_id,)}))) == len(
        await reach.events.find(Query(fields={"msg_id": (receipt.msg_id,)}))
    )
    await archiver.close()
    elsewhere = open_backend(server.url, env="empty")
    await elsewhere.open()
    try:
        alone = Events(elsewhere, open_store(f"sqlite:{tmp_path}"))
        assert await alone.trace(receipt.msg_id) == tree
        whole = await alone.find()
        pages = [page async for page in alone.pages(Query(max_found=7))]
        assert [record for page in reversed(pages) for record in page] == whole
    finally:
        await elsewhere.close()
