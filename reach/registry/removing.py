"""How an agent ends: its inboxes first, then its registration, so that whoever dies half-way leaves something to go on with."""

from reach.backend import Backend
from reach.envelope.registration import Why


async def open_inboxes(backend: Backend, agent_id: str) -> None:
    """Open an agent's inbox in every partition. Again: nothing."""
    for partition in range(backend.partitions):
        await backend.open_inbox(partition, agent_id)


async def remove_agent(backend: Backend, agent_id: str, stored: bytes | None, *, before_ms: int, why: Why) -> bool:
    """Close an agent's inboxes, then forget its registration, which was `stored` when nobody had beaten for it since `before_ms`.

    False: it is still there. Either its inboxes are not empty yet, and asked again it goes on; or somebody has registered meanwhile, or
    shows life again.
    """
    closed = [await backend.close_inbox(partition, agent_id) for partition in range(backend.partitions)]
    if not all(closed):
        return False
    if stored is None or await backend.remove(agent_id, stored, before_ms, why):
        return True
    if await backend.registered(agent_id) is not None:  # who came meanwhile has had its inboxes closed under its hands
        await open_inboxes(backend, agent_id)
    return False
