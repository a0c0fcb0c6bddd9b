"""`reach capacity` from outside."""

import asyncio
import json

import pytest

from reach.backend import open_backend
from reach.backend.private_server import PrivateServer
from reach.routing.wanted import RESULT
from tests.e2e.processes import reach

pytestmark = pytest.mark.processes

TOLD = b"""{"at_ms": 1, "lines": [{"capability": "refund", "wanted": {"instances": 6}, "demand": {"arrivals_per_s": 7.2, "backlog": 40,
"waiting": 0.5, "inflight": 11.5, "agents": 3, "instances": 3, "slots": 12, "mean_s": 0.4}}]}"""


def test_what_is_wanted_is_shown_to_people_and_to_scalers(server: PrivateServer) -> None:
    done = reach("capacity", REACH_REDIS_URL=server.url)
    assert (done.returncode, done.stdout) == (0, b"")
    assert b"nothing is asked" in done.stderr
    asyncio.run(tell(server.url))
    done = reach("capacity", REACH_REDIS_URL=server.url)
    assert done.stdout.split()[-9:] == b"refund 3 12 11.5 40 0.5 7.2 3 6".split()
    (line,) = json.loads(reach("capacity", "-o", "json", REACH_REDIS_URL=server.url).stdout)
    assert (line["capability"], line["wanted"], line["instances"], line["backlog"]) == ("refund", 6, 3, 40)


async def tell(url: str) -> None:
    backend = open_backend(url, env="dev")
    await backend.open()
    try:
        await backend.tell_demand(RESULT, TOLD)
    finally:
        await backend.close()
