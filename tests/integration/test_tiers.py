"""A policy that reads the tier from the payload, on whole routers."""

from typing import Any

import msgspec

from tests.integration.spine import Spine, envelope, until
from tests.integration.test_capacity import answer, knows

POLICY = {
    "strategy": "tiered",
    "tiers": ["small", "large"],
    "tier_by": {"by": "field", "path": "/amount", "map": {"1": "large"}, "default": "small"},
}


async def test_the_payload_says_which_tier_and_a_retry_says_the_same(spine: Spine) -> None:
    await knows(spine, refund=msgspec.json.encode(POLICY))
    for tier in ("small", "large"):
        await spine.register(f"refund-{tier}", "refund", tier=tier)
    index = next(service for service in spine.services if service.name == "watcher").index  # type: ignore[attr-defined]

    async def known() -> bool:
        return all(index.has_agent(f"refund-{tier}") for tier in ("small", "large"))

    await until(known, "both agents")
    for body, agent in (({"amount": 1}, "refund-large"), ({"amount": 2}, "refund-small"), (None, "refund-small")):
        await _goes_to(spine, envelope(payload={"body": body}), agent)


async def _goes_to(spine: Spine, made: dict[str, Any], agent: str) -> None:
    msg_id = await spine.send(made)
    await answer(spine, agent, {"status": "retryable", "code": "handler.retry", "retry_after_ms": 100})
    await answer(spine, agent, {"status": "success"})
    assert (await spine.receipt(msg_id))["target_agent"] == agent
