"""Where each row of the key table is met in the town of `healing.py`: the keys to break, and what of it must come back by itself."""

from collections.abc import Awaitable, Callable
from itertools import count
from typing import NamedTuple

from reach import Agent
from reach.backend.keys import LANES
from reach.delivery.demand import PACE_MS
from reach.testing import wait_until
from reach.tracing.presence import EVERY_US
from tests.faults.healing import AGENT, KEYS, Town

Find = Callable[[Town], Awaitable[list[str]]]


class Spot(NamedTuple):
    """One row. `find` makes its keys where nothing always has them, also after they were broken.

    `returns`: they are there again, of their type, within two seconds, since something always needs them.
    """

    find: Find
    returns: bool = False


def always(*keys: str) -> Find:
    async def find(_: Town) -> list[str]:
        return list(keys)

    return find


async def held(town: Town) -> list[str]:
    return [KEYS.message(0, (await town.hold()).msg_id)]


async def kept(town: Town) -> list[str]:
    return [KEYS.envelope(0, (await town.waiting()).msg_id)]


async def part(town: Town) -> list[str]:
    return [KEYS.part(0, (await town.hold()).msg_id)]


async def instances(town: Town) -> list[str]:
    """One more comes, is noted there, and goes."""
    name = f"passer-{next(PASSERS)}"
    passer = Agent(name)

    @passer.capability("pass")
    async def nothing() -> None: ...

    async with passer.running(town.url, grace=0):
        assert (await town.raw.hget(KEYS.instances(), name)).startswith(b"/")
    return [KEYS.instances()]


async def families(town: Town) -> list[str]:
    """Somebody says what an order looks like, to whom nobody has said it or for whom it has been lost."""
    await town.reach.schemas.set("order.v1", {"type": "object"})
    assert b"order.v1" in await town.raw.hget(KEYS.families(), "order")
    return [KEYS.families()]


async def demand(town: Town) -> list[str]:
    """Each router tells its counts every few seconds; where it finds something else, it makes room for the next to tell."""

    async def told() -> bool:
        return bool(await town.raw.type(KEYS.demand()) == b"hash")

    await wait_until(told, 4 * PACE_MS / 1_000)
    return [KEYS.demand()]


async def recorders(town: Town) -> list[str]:
    """Each process says every few seconds up to when its records are written."""

    async def told() -> bool:
        return bool(await town.raw.type(KEYS.recorders()) == b"zset")

    await wait_until(told, 4 * EVERY_US / 1_000_000)
    return [KEYS.recorders()]


async def mailbox(town: Town) -> list[str]:
    return [KEYS.mail(0, town.reach.mailbox_id)]


def of_partition(name: str) -> Find:
    return always(KEYS.partition_prefix(0) + name)


def of_env(name: str) -> Find:
    return always("reach:{dev}:" + name)


PASSERS = count(1)
MSG_ID = "0198a5c2-7f3e-7000-8000-000000000001"

SPOTS: dict[str, Spot] = {
    "ingress": Spot(always(*(KEYS.ingress(0, lane) for lane in LANES)), returns=True),
    "again": Spot(always(KEYS.again(0)), returns=True),
    "receipts": Spot(always(KEYS.receipts(0)), returns=True),
    "inbox": Spot(always(*(KEYS.inbox(0, AGENT, lane) for lane in LANES)), returns=True),
    "message": Spot(held),
    "envelope": Spot(kept),
    "due": Spot(always(KEYS.due(0)), returns=True),
    "mail": Spot(mailbox, returns=True),
    "part": Spot(part),
    "line": Spot(of_partition("line:abc")),
    "share": Spot(of_partition(f"share:{AGENT}")),
    "room": Spot(of_partition(f"room:{AGENT}:all")),
    "inflight": Spot(of_partition("inflight")),
    "session": Spot(of_partition(f"session:{AGENT}:order-1")),
    "blob": Spot(of_partition("blob:abc")),
    "once": Spot(of_partition(f"once:{MSG_ID}:mail")),
    "health": Spot(always(KEYS.health(0))),
    "tick": Spot(always(KEYS.tick(0)), returns=True),
    "dead": Spot(always(KEYS.dead(0))),
    "events": Spot(always(KEYS.events(0)), returns=True),
    "meta": Spot(always(KEYS.meta())),
    "routes": Spot(always(KEYS.routes())),
    "types": Spot(always(KEYS.types())),
    "schemas": Spot(of_env("schemas")),
    "families": Spot(families),
    "rules": Spot(of_env("rules")),
    "agents": Spot(always(KEYS.agents())),
    "beats": Spot(always(KEYS.beats())),
    "load": Spot(always(KEYS.load())),
    "instances": Spot(instances),
    "recorders": Spot(recorders),
    "changes": Spot(always(KEYS.changes())),
    "circuit": Spot(always(KEYS.circuit())),
    "met": Spot(of_env("met:tester")),
    "conv": Spot(of_env("conv:abc")),
    "rate": Spot(of_env(f"rate:{AGENT}")),
    "demand": Spot(demand),
    "secrets": Spot(of_env("secrets")),
    "control": Spot(always(KEYS.control()), returns=True),
    "lock": Spot(always(KEYS.lock("opener")), returns=True),
}
