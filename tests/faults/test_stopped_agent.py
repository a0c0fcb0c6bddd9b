"""A process that is stopped (SIGSTOP) past its lease: its work is taken over, and what it answers when it goes on changes nothing."""

import signal

import pytest

from reach import Handle, Reach
from reach.backend.steps import Record
from reach.testing import wait_until
from tests.integration.sdk.world import agent_process, router

TAKEN_OVER_S = 17 + 3  # the lease and the next look; and what a busy machine needs for the rest


async def knows(reach: Reach, agent_id: str) -> bool:
    _, beats = await reach.backend.last_beats(0)
    return any(beat.agent_id == agent_id for beat in beats)


async def record_of(reach: Reach, handle: Handle) -> Record:
    record = await reach.backend.inspect(0, handle.msg_id)
    assert record is not None
    return record


@pytest.mark.processes
@pytest.mark.timeout(90)
@pytest.mark.leaves_work(why="a process is killed, and its consumer stays until it is swept")
async def test_an_agent_that_is_stopped_past_its_lease_answers_too_late_and_changes_nothing(redis_url: str) -> None:
    async with (
        router(redis_url),
        Reach.connect(redis_url, agent_id="asker") as reach,
        agent_process(redis_url, "one") as one,
    ):
        await wait_until(lambda: knows(reach, "one"), 10, "the registration of one")
        handle = await reach.send("capability:work", 0.5, timeout=60)

        async def running() -> bool:
            record = await reach.backend.inspect(0, handle.msg_id)  # none, while no router has read it
            return record is not None and record.legs[0].state == "running"

        await wait_until(running, 10, "the start")
        one.send_signal(signal.SIGSTOP)
        async with agent_process(redis_url, "two") as two:
            receipt = await handle.receipt(TAKEN_OVER_S + 10)
            assert (receipt.code, receipt.output, receipt.attempts) == ("ok", two.pid, 2)
            assert receipt.target_agent == "two"
            before = await record_of(reach, handle)
            one.send_signal(signal.SIGCONT)
            # It goes on in the middle of its handler, ends it, and serves what comes next: by then its late answer has been given.
            alive = await reach.request("agent_id:one", 0.0, timeout=20)
            assert alive.target_agent == "one"
            after = await record_of(reach, handle)
            assert (after.head, after.legs, after.receipts) == (before.head, before.legs, before.receipts)
            assert [leg.history for leg in after.legs.values()] == [before.legs[0].history]
            told = [
                mail for mail in await reach.backend.read_mail(reach.mailbox_id, {0: "0"}, 0) if mail.kind == "receipt"
            ]
            assert sum(handle.msg_id.encode() in mail.data for mail in told) == 1
