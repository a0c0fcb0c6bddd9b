"""The fleet of `tests.benchmarks.scale`: agents with capabilities as a registrar stores them, their beats, and who is asked for what."""

from collections.abc import Iterator, Sequence

import msgspec
import redis

from reach.backend.scripts import script
from reach.envelope.records import encode_beat, encode_registration
from reach.envelope.registration import Beat, Capability, Registration
from reach.routing.index import CapabilityIndex

ENV = "dev"
AGENTS, EACH = 10_000, 5
#: How many agents offer the capability `shared.<n>`; everything else an agent offers nobody else does.
SHARED = (1, 5, 20, 100, 10_000)
NOW = 1_800_000_000_000


def name(at: int) -> str:
    """The agent_id of one."""
    return f"agent-{at:05}"


def registration(at: int) -> bytes:
    """As it is stored: five capabilities, described, with two examples each."""
    shared = [f"shared.{size}" for size in SHARED if at < size]
    own = [f"team{at % 97}.service{at}.do{number}" for number in range(EACH - len(shared))]
    capabilities = tuple(
        Capability(
            name=each,
            description=f"Does what {each} stands for, quickly and with care",
            examples=(f"please do {each} for order 17", f"what about {each} today?"),
            input_schema="work.request.v1",
        )
        for each in [*shared, *own]
    )
    declared = Registration(
        agent_id=name(at), instance_id=f"{name(at)}.1", groups=(f"group-{at % 50}",), capabilities=capabilities
    )
    return encode_registration(declared)[:-1] + b',"v":%d}' % (at + 1)


def beat(at: int, round_: int = 0) -> bytes:
    """Every agent has done something since the last time, and one in ten is busy."""
    taken = (at + round_) % 10
    told = Beat(
        state="busy" if taken == 9 else "ready",
        inflight=min(taken, 8),
        load=min(taken, 8) * 12.5,
        success_rate=0.9 + (at % 10) / 100,
        avg_response_ms=200.0 + (at * 37 + round_ * 11) % 1_500,
        epoch=1,
        partitions=1,
    )
    return encode_beat(told)


def load(index: CapabilityIndex, agents: int = AGENTS) -> None:
    """Fill an index as a router does at its start."""
    index.load({name(at): registration(at) for at in range(agents)}, {}, (), {})
    for at in range(agents):
        index.beat(name(at), f"{name(at)}.1", NOW - at % 5_000, beat(at))


def store(client: redis.Redis, agents: int = AGENTS) -> None:
    """Put them all into a server, as registrars have left them."""
    prefix = f"reach:{{{ENV}}}:"
    pipeline = client.pipeline(transaction=False)
    for at in range(agents):
        pipeline.hset(f"{prefix}agents", name(at), registration(at))
        if at % 1_000 == 999:
            pipeline.execute()
    pipeline.hset(f"{prefix}meta", "v", agents)
    pipeline.execute()
    Beater(client).all(range(agents), 0)


class Beater:
    """Beats for many by the published script, as each of them would."""

    def __init__(self, client: redis.Redis) -> None:
        self._client = client
        self._sha = client.script_load(script("beat").text)

    def all(self, agents: Sequence[int], round_: int) -> None:
        """One beat of each."""
        for page in _pages(agents, 100):
            pipeline = self._client.pipeline(transaction=False)
            for at in page:
                pipeline.evalsha(self._sha, 1, f"reach:{{{ENV}}}:agents", name(at), f"{name(at)}.1", beat(at, round_))
            pipeline.execute()


def _pages(agents: Sequence[int], size: int) -> Iterator[Sequence[int]]:
    for start in range(0, len(agents), size):
        yield agents[start : start + size]


def control(at: int, reply_to: str) -> bytes:
    """A newcomer's control entry."""
    fields = msgspec.json.decode(registration(at))
    fields.pop("v")
    return msgspec.json.encode({"op": "register", "reply_to": reply_to, **fields})
