"""What is over a bound is told so at once, or waits, as the policy says; and it is told which bound that is."""

import pytest

from tests.contract.places import KEYS
from tests.integration.spine import Spine, envelope, until


async def has_policy(spine: Spine, policy: bytes) -> None:
    """refund-1 is there, and every router knows this policy of it."""
    await spine.register("refund-1", "refund")
    await spine.backend.set_meta("routes", "capability:refund", policy)
    index = next(service for service in spine.services if service.name == "watcher").index  # type: ignore[attr-defined]

    async def known() -> bool:
        return "refund-1" in index.agents and index.policy("capability:refund").max_inbox is not None

    await until(known, "the policy")


def by(sender: str) -> dict[str, object]:
    return envelope(source={"agent_id": sender})


@pytest.mark.leaves_work(why="nobody reads the inbox")
async def test_one_sender_over_its_share_is_told_so_and_another_gets_in(spine: Spine) -> None:
    await has_policy(spine, b'{"max_inbox":4,"on_full":"reject"}')
    noisy = [by("noisy") for _ in range(3)]
    for made in noisy:
        await spine.send(made)
    receipt = await spine.receipt(str(noisy[2]["msg_id"]))
    assert (receipt["status"], receipt["code"], receipt["retry_after_ms"]) == ("retryable", "overloaded", 1_000)
    assert receipt["error_message"] == "this sender fills its share of every inbox"
    (reason,) = receipt["details"]["reasons"]
    assert (reason["filter"], reason["reason"]) == ("capacity", "this sender fills its share of the inbox")
    await spine.send(by("quiet"))
    await until(lambda: _queued(spine, 3), "the other sender's message in the inbox")


async def _queued(spine: Spine, count: int) -> bool:
    return len(await spine.place.entries(KEYS.inbox(0, "refund-1", "normal"))) == count
