"""How much is kept of what only piles up, and the fields of `meta` that change it."""

from collections.abc import Callable, Mapping
from typing import NamedTuple

import msgspec

from reach import ids
from reach.envelope import networks, privacy
from reach.errors import IngressFull

#: Entries of a mailbox. Its reader trims what it has read every 2 s; this bounds what one that does not read can pile up.
MAX_MAIL = 10_000
#: How much longer than the record the guard of an effect is kept: a round that opens at the record's end must still find it.
ONCE_MS = 600_000
#: A conversation is forgotten so long after the last message that was counted in it.
CONV_MS = 3_600_000
#: What is remembered of one conversation: at most so many fields and three more; then only what the last so many steps have written.
MAX_CONV_FIELDS = 3_000
CONV_KEPT = 500
#: Counts of demand are written every few seconds: what is older than this nobody writes any more.
DEMAND_TTL_MS = 60_000
#: Whom a source has met is remembered for so long, and of each source so much.
MET_MS, MAX_MET = 3_600_000, 1_000
#: Nothing in it counts further than Lua writes numbers: as millionths a cost of a hundred million.
MOST_SPENT = 99_999_999_999_999
DAY_MS = 24 * 3_600_000
#: JSON Schemas of an env, each at most 64 KiB; routers hold the records of their families.
MAX_SCHEMAS = 1_000
#: Message types that registrations leave behind; more are known only while somebody who accepts them is registered.
MAX_TYPES = 10_000
#: So many agents that are gone are remembered, each for a day.
MAX_GONE = 10_000
MAX_BEAT_BYTES = 16_384
#: How long a sender should wait who was told that a door is full.
FULL_WAIT_MS = 1_000
#: A question stays open for so long at most, and for so long where nobody says otherwise.
MAX_OPEN_MS, OPEN_MS = 7 * DAY_MS, DAY_MS
#: Each prompt, state and answer; and what one message may ask in all.
MAX_VALUE_BYTES = 65_536
MAX_ANSWERS, MAX_ANSWERS_BYTES = 100, 262_144


class Setting(NamedTuple):
    """A field of `meta` that an admin may set (`set_meta`): whole numbers from 0; anything else counts as absent."""

    name: str
    default: int
    what: str


SETTINGS: tuple[Setting, ...] = (
    Setting("partitions", 1, "how many partitions the env has; changed only while nothing is under way"),
    Setting(
        "max_inbox",
        10_000,
        "a lane of an inbox is full with so many that nobody has taken, unless the policy of the pattern says otherwise",
    ),
    Setting("max_inflight", 0, "so many messages may be open, over all partitions; one more is refused; 0: any number"),
    Setting("max_inflight_per_sender", 0, "the same of one sender"),
    Setting(
        "max_inflight_per_agent", 0, "so many may lie with one agent, queued and running; with it the inbox is full"
    ),
    Setting("max_fanout", 1_000, "so many agents may get one message of scope all; never more than 10,000"),
    Setting(
        "max_ingress",
        100_000,
        "with so many messages at a door (partition and lane) that no router has taken, senders are told `overloaded`; "
        "senders read it every minute",
    ),
    Setting(
        "max_pair_rate",
        12,
        "so often a minute one sender may have its turn at one target within a chain of messages that answer one another; 0: no bound",
    ),
    Setting("max_same_content", 8, "so often the same content may come again within such a chain; 0: no bound"),
    Setting(
        "capacity_down_ms",
        300_000,
        "fewer instances of a capability are wanted only when fewer would have done for so long",
    ),
    Setting("max_schemas", MAX_SCHEMAS, "so many JSON Schemas are stored (docs/schemas.md)"),
    Setting("require_token", 0, "1: nobody registers without a token (`reach token issue`)"),
    Setting(
        "closed",
        0,
        "1: nobody calls anybody without a rule that allows it (`reach rules`), nor with what is no number; 0: whatever no rule denies",
    ),
    Setting("max_events", 2_000, "so many batches of hop records are kept in a partition"),
    Setting("events_age_ms", DAY_MS, "hop records older than this go"),
    Setting(
        "max_kept_bytes",
        privacy.MAX_KEPT_BYTES,
        "envelopes and receipts of more bytes are hashed in hop records, whatever `privacy` says",
    ),
    Setting("max_dead", 10_000, "so many dead letters are kept in a partition"),
    Setting("dead_age_ms", 7 * DAY_MS, "dead letters older than this go"),
)


class TextSetting(NamedTuple):
    """A field of `meta` that is no number. `problem`: what is wrong with a text, None: nothing. Absent: nothing is asked."""

    name: str
    what: str
    problem: Callable[[str], str | None]


TEXT_SETTINGS: tuple[TextSetting, ...] = (
    TextSetting(
        "networks",
        "from where agents may register, such as `10.0.0.0/8,::1/128,unix`; a list that cannot be read lets in nobody",
        networks.problem_of,
    ),
    TextSetting(
        "privacy",
        "what hop records keep of envelopes and receipts, such as `hash,weather.query=keep,payments.*=drop`; absent: keep in env dev, "
        "hash in any other; what cannot be read: drop (docs/observability.md)",
        privacy.problem_of,
    ),
)
_DEFAULTS = {setting.name: setting.default for setting in SETTINGS}


class Bounds(msgspec.Struct, frozen=True):
    """What is kept of the streams that nobody empties, per partition, and what is let into the doors."""

    max_events: int = _DEFAULTS["max_events"]
    events_age_ms: int = _DEFAULTS["events_age_ms"]
    max_dead: int = _DEFAULTS["max_dead"]
    dead_age_ms: int = _DEFAULTS["dead_age_ms"]
    max_ingress: int = _DEFAULTS["max_ingress"]


FIELDS = Bounds.__struct_fields__


def bounds_of(meta: Mapping[str, bytes | None]) -> Bounds:
    """The bounds that these fields of `meta` set. What is no whole number from 1 counts as absent: 0 would keep nothing at all."""
    given = {name: ids.count_of(meta.get(name) or b"") for name in FIELDS}
    return Bounds(**{name: number for name, number in given.items() if number})


def full_door(partition: int, lane: str, lying: int) -> IngressFull:
    """What a sender is told whose message has no room at its door."""
    text = f"{lying} messages lie at the door {lane} of partition {partition}, and no router takes them"
    return IngressFull(
        text, details={"partition": partition, "lane": lane, "entries": lying}, retry_after_ms=FULL_WAIT_MS
    )
