"""Looks at everything, in the order in which it is needed."""

from reach import ids
from reach.backend.connection import Link
from reach.backend.keys import KeySpace
from reach.backend.scripts import names
from reach.backend.survey.facts import MAX_AGENTS, Survey
from reach.backend.survey.server_side import Asking, look_at_server, read_records, try_steps
from reach.backend.survey.streams_side import look_at_env_streams, look_at_keys, look_at_partition
from reach.clock import Clock
from reach.envelope.registration import MAX_PARTITIONS
from reach.errors import ConfigError

OLDEST = 7


async def survey(url: str, env: str, *, clock: Clock | None = None) -> Survey:
    """Look at one env on one server. Changes no key; some round trips, more of them the more keys and agents there are.

    Args:
        url: `redis://`, `rediss://` or `unix://`.
        env: The environment.
        clock: This machine's, to be compared with that of the server.

    Raises:
        ConfigError: The URL or the env cannot be used.
        BackendError: The server cannot be reached, or does not let this user in.
    """
    if not ids.is_env(env):
        raise ConfigError(f"{env!r} is no env: lower-case letters, digits and -, at most 32", details={"field": "env"})
    if url.startswith("memory:"):
        raise ConfigError("memory:// lives inside one process: there is no server to look at", details={"field": "url"})
    link = Link(url, clock=clock)
    try:
        return await _look_at_all(Asking(link), KeySpace(env))
    finally:
        await link.close()


async def _look_at_all(asking: Asking, keys: KeySpace) -> Survey:
    server = await look_at_server(asking)
    if 0 < _major(server.info.get("redis_version", "")) < OLDEST or server.info.get("cluster_enabled") == "1":
        return Survey(server=server, denied=tuple(sorted(asking.denied)))
    refused = await try_steps(asking, keys)
    records = await read_records(asking, keys)
    told = ids.count_of(records.meta.get("partitions", "1"))
    partitions = told if told is not None and 1 <= told <= MAX_PARTITIONS else 1
    looked_at = sorted(records.agents)[:MAX_AGENTS]
    return Survey(
        server=server,
        partition_count=partitions,
        refused_steps=refused,
        steps=len(names()),
        records=records,
        keys=await look_at_keys(asking, keys, records.agents),
        env_streams=await look_at_env_streams(asking, keys),
        partitions=tuple([await look_at_partition(asking, keys, number, looked_at) for number in range(partitions)]),
        agents_left_out=len(records.agents) - len(looked_at),
        denied=tuple(sorted(asking.denied)),
    )


def _major(version: str) -> int:
    """The first number of a version, 0 where there is none."""
    return ids.count_of(version.partition(".")[0]) or 0
