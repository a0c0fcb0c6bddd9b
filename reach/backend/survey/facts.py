"""What was seen. Moments are Unix ms of the server's clock, durations ms, unless said otherwise."""

import msgspec

#: How long an entry of an inbox may lie with a holder that does not renew: the lease, and a round of renewing.
HOLDER_LATE_MS = 20_000
#: How long an entry of a door may lie with a worker: the others claim it after 5 s.
WORKER_LATE_MS = 10_000
#: How many entries, keys and agents are looked at; the rest is counted or said to be left out.
MAX_STUCK = 10
MAX_KEYS = 100_000
MAX_AGENTS = 1_000


class ServerFacts(msgspec.Struct, frozen=True, kw_only=True):
    """The server. `info` is all of INFO; settings that this user may not read are ""."""

    info: dict[str, str]
    fsync: str
    min_replicas: str
    eviction: str
    #: for the comparison with this machine's clock alone: what else was seen has the time of its own round trip
    now_ms: int
    #: this machine's clock at the same moment
    local_ms: int
    #: round trips, in the order in which they were made
    pings_ms: tuple[int, ...]

    def number(self, name: str) -> int:
        """A number of INFO, 0 where it is none."""
        text = self.info.get(name, "")
        return int(text) if text.isascii() and text.isdigit() else 0


class Consumer(msgspec.Struct, frozen=True):
    """One reader of a group: how much it holds, and when it last asked."""

    name: str
    pending: int
    idle_ms: int


class Stuck(msgspec.Struct, frozen=True):
    """An entry that somebody took and has not been heard of since."""

    id: str
    consumer: str
    idle_ms: int


class StreamFacts(msgspec.Struct, frozen=True, kw_only=True):
    """One stream that should be there. `type` is what TYPE says ("none": not there); the rest is empty unless it is a stream."""

    key: str
    type: str
    #: the group that should be there, "" for none
    group: str = ""
    #: "" outside inboxes
    agent_id: str = ""
    #: the server's clock when it was looked at
    now_ms: int = 0
    has_group: bool = False
    length: int = 0
    #: the ids as (ms, number)
    first_id: tuple[int, int] = (0, 0)
    last_id: tuple[int, int] = (0, 0)
    consumers: tuple[Consumer, ...] = ()
    #: at most MAX_STUCK
    stuck: tuple[Stuck, ...] = ()

    @property
    def is_stream(self) -> bool:
        """Whether it is there, and what it should be."""
        return self.type == "stream"


class Partition(msgspec.Struct, frozen=True, kw_only=True):
    """One partition. `tick_*` are None where `due` never ran."""

    number: int
    doors: tuple[StreamFacts, ...]
    inboxes: tuple[StreamFacts, ...]
    #: events and dead
    records: tuple[StreamFacts, ...]
    #: the server's clock when due and tick were looked at
    now_ms: int
    #: members of due whose moment is over, and the oldest of those moments
    overdue: int = 0
    overdue_since_ms: int = 0
    tick_last_ms: int | None = None
    tick_grace_until_ms: int = 0


class AgentRecords(msgspec.Struct, frozen=True, kw_only=True):
    """The env's hashes as stored, without tombstones."""

    agents: dict[str, bytes]
    routes: dict[str, bytes]
    rules: dict[str, bytes] = {}
    meta: dict[str, str]
    #: agent_id/partition of those that are not closed
    circuits: dict[str, bytes] = {}
    #: (agent_id, instance_id, last beat, its JSON)
    beats: tuple[tuple[str, str, int, bytes], ...]
    #: the server's clock when these were read
    now_ms: int


class KeyFacts(msgspec.Struct, frozen=True, kw_only=True):
    """All keys of the env. `whole` False: there are more than MAX_KEYS, and the rest was not looked at."""

    count: int
    whole: bool
    #: (key, what is wrong with it)
    faults: tuple[tuple[str, str], ...]
    #: agents that have an inbox and no registration
    orphans: tuple[str, ...]


class Survey(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that was seen. After a server that is too old nothing else is looked at: the rest is None or empty."""

    server: ServerFacts
    #: the number of partitions that `meta` names, where it is one
    partition_count: int = 1
    #: steps that the server did not take, with what it said
    refused_steps: tuple[tuple[str, str], ...] = ()
    steps: int = 0
    #: commands that this user may not use: what they would tell is not known
    denied: tuple[str, ...] = ()
    records: AgentRecords | None = None
    keys: KeyFacts | None = None
    env_streams: tuple[StreamFacts, ...] = ()
    partitions: tuple[Partition, ...] = ()
    #: registered agents whose inboxes were not looked at
    agents_left_out: int = 0
