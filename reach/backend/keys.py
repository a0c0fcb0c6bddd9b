"""Every key that reach writes: its name, type, lifetime and writer. The one table that code, tests and docs read.

`{T}` is `{<env>.<p>}`, the hash tag of a partition: everything about a message lies in one Redis Cluster slot for its whole life, so
that every change of its state can be one script. `{E}` is `{<env>}`: who exists, and how to choose.
"""

from typing import Literal, NamedTuple

from reach.backend.bounds import SETTINGS, TEXT_SETTINGS

RedisType = Literal["stream", "string", "hash", "zset", "list", "set"]

LANES = ("high", "normal", "low")
GROUP_ROUTERS = "routers"
GROUP_AGENT = "agent"
GROUP_REGISTRARS = "registrars"


class Row(NamedTuple):
    """One kind of key. `pattern` has placeholders in angle brackets; `ttl` says whether Redis itself expires it."""

    name: str
    pattern: str
    types: tuple[RedisType, ...]
    ttl: bool
    lifetime: str
    writer: str


TABLE: tuple[Row, ...] = (
    Row("ingress", "reach:{T}:ingress:<lane>", ("stream",), False, "entries deleted when applied", "anyone"),
    Row("again", "reach:{T}:again", ("stream",), False, "entries deleted when applied", "scripts"),
    Row(
        "receipts",
        "reach:{T}:receipts",
        ("stream",),
        False,
        "entries deleted when applied",
        "agents without scripts; scripts, of what nobody records who was there",
    ),
    Row("inbox", "reach:{T}:inbox:<agent_id>:<lane>", ("stream",), False, "open_inbox to close_inbox", "route"),
    Row("message", "reach:{T}:m:<msg_id>", ("string", "hash"), True, "deadline plus the dedup window", "scripts"),
    Row("envelope", "reach:{T}:env:<msg_id>", ("string",), True, "until terminal, else as the record", "scripts"),
    Row("due", "reach:{T}:due", ("zset",), False, "members until terminal", "scripts"),
    Row(
        "mail",
        "reach:{T}:mail:<mailbox>",
        ("stream",),
        True,
        "60 s, renewed and trimmed by its owner",
        "its owner, scripts",
    ),
    Row("part", "reach:{T}:part:<msg_id>", ("stream",), True, "5 min after the end", "progress"),
    Row("line", "reach:{T}:line:<line>", ("list",), True, "as the longest record in it", "scripts"),
    Row("share", "reach:{T}:share:<agent_id>", ("hash",), True, "while used", "scripts"),
    Row("room", "reach:{T}:room:<agent_id>:<bound>", ("zset",), True, "as the longest record in it", "scripts"),
    Row("inflight", "reach:{T}:inflight", ("hash",), True, "while used", "scripts"),
    Row("session", "reach:{T}:session:<agent_id>:<order_key>", ("hash",), True, "bounded", "settle"),
    Row("blob", "reach:{T}:blob:<id>", ("string",), True, "as the record", "sender"),
    Row("once", "reach:{T}:once:<msg_id>:<name>", ("hash",), True, "as the record, and 10 min", "agents"),
    Row("health", "reach:{T}:health", ("hash",), True, "1 h after the last write", "settle, due, route, take"),
    Row("tick", "reach:{T}:tick", ("hash",), False, "permanent", "due"),
    Row("dead", "reach:{T}:dead", ("stream",), False, "at most max_dead entries, dead_age_ms old", "scripts"),
    Row(
        "events",
        "reach:{T}:events",
        ("stream",),
        False,
        "at most max_events batches, events_age_ms old",
        "routers, agents",
    ),
    Row("meta", "reach:{E}:meta", ("hash",), False, "permanent", "admin, registrar"),
    Row("routes", "reach:{E}:routes", ("hash",), False, "permanent", "admin"),
    Row("types", "reach:{E}:types", ("hash",), False, "at most 10,000 by registrations", "admin, registrar"),
    Row("schemas", "reach:{E}:schemas", ("hash",), False, "at most max_schemas", "admin, registrar"),
    Row("families", "reach:{E}:families", ("hash",), False, "permanent", "admin, registrar"),
    Row("rules", "reach:{E}:rules", ("hash",), False, "permanent", "admin"),
    Row("agents", "reach:{E}:agents", ("hash",), False, "until removed; tombstones 24 h", "registrar"),
    Row("beats", "reach:{E}:beats", ("zset",), False, "members reaped", "beat"),
    Row("load", "reach:{E}:load", ("hash",), False, "fields reaped", "beat"),
    Row("instances", "reach:{E}:instances", ("hash",), False, "fields until the agent is removed", "beat, registrar"),
    Row(
        "recorders",
        "reach:{E}:recorders",
        ("zset",),
        False,
        "members until they end; reaped",
        "routers, agents, clients",
    ),
    Row("changes", "reach:{E}:changes", ("stream",), False, "MAXLEN ~ 10000", "scripts"),
    Row("circuit", "reach:{E}:circuit", ("hash",), True, "1 h after the last write", "tell_circuit"),
    Row(
        "met",
        "reach:{E}:met:<source>",
        ("zset",),
        True,
        "1 h after its last write; at most 1,000 members",
        "routers",
    ),
    Row(
        "conv",
        "reach:{E}:conv:<correlation_id>",
        ("hash",),
        True,
        "1 h after its last write; at most 3,003 fields",
        "routers, agents",
    ),
    Row("rate", "reach:{E}:rate:<agent_id>", ("hash",), True, "until it is full, at least a minute", "routers"),
    Row("demand", "reach:{E}:demand", ("hash",), True, "a minute after the last write", "routers"),
    Row("secrets", "reach:{E}:secrets", ("hash",), False, "permanent", "admin"),
    Row("control", "reach:{E}:control", ("stream",), False, "entries deleted when handled", "agents"),
    Row("lock", "reach:{E}:lock:<service>", ("string",), True, "seconds", "routers"),
)


class KeySpace:
    """The names of one env's keys. Pure: holds nothing but the env; every method returns a `str`."""

    __slots__ = ("_env_tag", "env")

    def __init__(self, env: str) -> None:
        self.env = env
        self._env_tag = "reach:{" + env + "}:"

    def partition_prefix(self, partition: int) -> str:
        """`reach:{<env>.<p>}:`, what every key of the partition starts with."""
        return "reach:{" + self.env + "." + str(partition) + "}:"

    def ingress(self, partition: int, lane: str) -> str:
        return f"{self.partition_prefix(partition)}ingress:{lane}"

    def again(self, partition: int) -> str:
        return self.partition_prefix(partition) + "again"

    def receipts(self, partition: int) -> str:
        return self.partition_prefix(partition) + "receipts"

    def work(self, partition: int) -> tuple[str, ...]:
        """The streams that routers read, in the order in which they are served."""
        prefix = self.partition_prefix(partition)
        return (prefix + "receipts", prefix + "again", *(f"{prefix}ingress:{lane}" for lane in LANES))

    def groups(self, partition: int, agent_id: str = "") -> dict[str, str]:
        """Stream -> group: the lanes of an agent, or without one the doors, and (beside partition 0) the control stream."""
        if agent_id:
            return {self.inbox(partition, agent_id, lane): GROUP_AGENT for lane in LANES}
        doors = dict.fromkeys(self.work(partition), GROUP_ROUTERS)
        return doors if partition else doors | {self.control(): GROUP_REGISTRARS}

    def inbox(self, partition: int, agent_id: str, lane: str) -> str:
        return f"{self.partition_prefix(partition)}inbox:{agent_id}:{lane}"

    def message(self, partition: int, msg_id: str) -> str:
        return f"{self.partition_prefix(partition)}m:{msg_id}"

    def envelope(self, partition: int, msg_id: str) -> str:
        return f"{self.partition_prefix(partition)}env:{msg_id}"

    def line(self, partition: int, name: str) -> str:
        return f"{self.partition_prefix(partition)}line:{name}"

    def hint(self, partition: int, agent_id: str) -> str:
        """No key but a channel: what is said there is stored nowhere."""
        return f"{self.partition_prefix(partition)}hint:{agent_id}"

    def due(self, partition: int) -> str:
        """The zset of moments; also the one key that every partition script declares."""
        return self.partition_prefix(partition) + "due"

    def mail(self, partition: int, mailbox: str) -> str:
        return f"{self.partition_prefix(partition)}mail:{mailbox}"

    def part(self, partition: int, msg_id: str) -> str:
        return f"{self.partition_prefix(partition)}part:{msg_id}"

    def once(self, partition: int, msg_id: str, name: str) -> str:
        return f"{self.partition_prefix(partition)}once:{msg_id}:{name}"

    def share(self, partition: int, agent_id: str) -> str:
        return f"{self.partition_prefix(partition)}share:{agent_id}"

    def room(self, partition: int, agent_id: str, bound: str) -> str:
        """Who waits for room at an agent. `bound`: a lane, `all` lanes, or `of:<sender>`."""
        return f"{self.partition_prefix(partition)}room:{agent_id}:{bound}"

    def inflight(self, partition: int) -> str:
        return self.partition_prefix(partition) + "inflight"

    def health(self, partition: int) -> str:
        return self.partition_prefix(partition) + "health"

    def tick(self, partition: int) -> str:
        return self.partition_prefix(partition) + "tick"

    def dead(self, partition: int) -> str:
        return self.partition_prefix(partition) + "dead"

    def events(self, partition: int) -> str:
        return self.partition_prefix(partition) + "events"

    def meta(self) -> str:
        return self._env_tag + "meta"

    def routes(self) -> str:
        return self._env_tag + "routes"

    def types(self) -> str:
        return self._env_tag + "types"

    def rules(self) -> str:
        return self._env_tag + "rules"

    def schemas(self) -> str:
        return self._env_tag + "schemas"

    def families(self) -> str:
        return self._env_tag + "families"

    def agents(self) -> str:
        """The hash of registrations; also the one key that every env script declares."""
        return self._env_tag + "agents"

    def beats(self) -> str:
        return self._env_tag + "beats"

    def load(self) -> str:
        return self._env_tag + "load"

    def instances(self) -> str:
        return self._env_tag + "instances"

    def recorders(self) -> str:
        return self._env_tag + "recorders"

    def changes(self) -> str:
        return self._env_tag + "changes"

    def conversation(self, correlation_id: str) -> str:
        return f"{self._env_tag}conv:{correlation_id}"

    def met(self, source: str) -> str:
        return f"{self._env_tag}met:{source}"

    def circuit(self) -> str:
        return self._env_tag + "circuit"

    def control(self) -> str:
        return self._env_tag + "control"

    def rate(self, agent_id: str) -> str:
        return f"{self._env_tag}rate:{agent_id}"

    def demand(self) -> str:
        return f"{self._env_tag}demand"

    def lock(self, service: str) -> str:
        return f"{self._env_tag}lock:{service}"


def markdown() -> str:
    """The table as docs/keys.md, which a test compares with the file (`make docs` writes it anew)."""
    lines = [
        "# Keys",
        "",
        "Made from `reach/backend/keys.py` by `make docs`.",
        "`{T}` is the hash tag of a partition, `{<env>.<p>}`; `{E}` that of an env, `{<env>}`.",
        "Nothing else is written; the tests walk every Redis that they have used and compare.",
        "",
        "| key | type | expires by itself | lifetime | written by |",
        "|---|---|---|---|---|",
    ]
    lines += [
        f"| `{row.pattern}` | {' or '.join(row.types)} | {'yes' if row.ttl else 'no'} | {row.lifetime} | {row.writer} |"
        for row in TABLE
    ]
    lines += [
        "",
        "## Channels",
        "",
        "Sharded Pub/Sub (SPUBLISH, SSUBSCRIBE), which stores nothing. `reach:{T}:hint:<agent_id>`: there `cancel` says `<lane>:<hand>` of",
        "each entry that it takes out of an inbox of the agent. It proves nothing and may be lost: see docs/wire.md.",
        "",
        "## Fields of `meta`",
        "",
        "Settings of the whole env, set by an admin with `set_meta` or HSET. Routers see a change at once, the bounds of `events`",
        "and `dead` are read every minute. A field that is absent, or holds no whole number where one is wanted, has its default.",
        "",
        "| field | default | what |",
        "|---|---|---|",
    ]
    lines += [f"| `{setting.name}` | `{setting.default}` | {setting.what} |" for setting in SETTINGS]
    lines += [f"| `{setting.name}` | - | {setting.what} |" for setting in TEXT_SETTINGS]
    return "\n".join(lines) + "\n"
