"""What the steps of the Backend port take and give back. Moments are Unix ms of the backend's own clock, durations ms."""

from collections.abc import Mapping
from typing import Literal

import msgspec

from reach.envelope.ledger import Head, Leg, LegState

Verdict = Literal["done", "skipped", "full", "gone", "open", "changed", "error"]
SettleVerdict = Literal["done", "stale", "unknown"]
AnswerVerdict = Literal["done", "stale", "denied", "unknown"]


class WorkEntry(msgspec.Struct, frozen=True):
    """An entry that a router has read and not yet acknowledged."""

    kind: Literal["ingress", "again", "receipts"]
    partition: int
    stream: str  # the key
    id: str
    fields: dict[bytes, bytes]


class Answer(msgspec.Struct, frozen=True):
    """The part of a receipt that its maker knows; a script adds the rest from the record (`members`, leg, attempts, times).

    `core` is a JSON object (UTF-8) with status, code, output, error_message, schema, processing_host, confidence, partial, cost, via,
    retry_after_ms and no other member; `details` is a JSON object. `settle` fills in what is left out, the code too ("" = that of the
    core, else the one that the status has by default), and refuses what does not fit; a plan's answer has to be whole.
    """

    status: Literal["success", "failed", "retryable"]
    code: str
    core: str
    details: str = "{}"


class Plan(msgspec.Struct, frozen=True, omit_defaults=True):
    """What is to be done with one leg.

    hold: wait for the stages before its own · observe: show `agent` a copy, which nobody answers ·
    deliver: append to `agent`'s inbox · delay: wait until `until_ms` · finish: end with `answer` (`dead`: and keep it as a dead letter) ·
    move: a queued leg goes to another agent (`free`: that neither counts as a move nor is bounded by their number) · stay: a queued leg
    stays where it is.
    """

    act: Literal["deliver", "delay", "finish", "move", "stay", "hold", "observe"]
    agent: str = ""
    max_inbox: int = 0  # what lies in the lane of its inbox that nobody has taken yet; 0 = no bound
    wait_ms: int = 0  # delay: from now, by the clock of the backend
    answer: Answer | None = None
    dead: bool = False
    free: bool = False
    room: int = 0  # move: not where as many entries lie in the agent's lanes already; 0 = no bound
    via: str = ""  # deliver, move: not by its own pattern, but by this way; its receipt says so
    max_agent: int = 0  # what lies in all lanes of its inbox, queued and running; 0 = no bound
    rooms: "tuple[Plan, ...]" = ()  # delay: until one of these hand-overs finds room, if that comes first; at most 16


class Send(msgspec.Struct, frozen=True):
    """An ingress entry and the decision for it: `plans[i]` is leg i. `reply_to` is "" for fire and forget.

    `notice`: a JSON object for the `routed` notice, sent where the message is new or a duplicate attaches; "" = none. The script
    replaces nothing in it but the member `round` that it appends.
    """

    entry: WorkEntry
    msg_id: str
    head: Head
    plans: tuple[Plan, ...]
    envelope: bytes
    reply_to: str = ""
    notice: str = ""
    max_open: int = 0  # so many messages may be open here, 0 = any number
    max_open_sender: int = 0  # and so many of one sender


class Again(msgspec.Struct, frozen=True):
    """An entry of the internal door and the decision for it, made for a leg seen in `state` with `attempt`.

    What `route` answers names the hand of that leg, and then those of `others`, in their order.
    """

    entry: WorkEntry
    msg_id: str
    leg: int
    hand: str
    state: LegState
    attempt: int
    plan: Plan
    #: raised timeouts for the agent that was chosen (0 = as they are); the callers are told of them
    processing_ms: int = 0
    total_ms: int = 0
    #: of a held leg of a stage: plans for the others that are held there, by leg; all of them go on in one step
    others: dict[int, Plan] = {}


class Refuse(msgspec.Struct, frozen=True):
    """An entry that is answered, acknowledged and deleted without a record. `receipt` is the whole JSON; "" mailbox = nobody to tell."""

    entry: WorkEntry
    mailbox: str = ""
    receipt: bytes = b""
    #: fields for the dead stream (m, e, r, h) when the entry is kept there, else empty
    dead: Mapping[str, bytes] = {}


Decision = Send | Again | Refuse


class RouteResult(msgspec.Struct, frozen=True):
    """What became of one decision. `hands[i]` is the id of leg i's inbox entry, "" where none was written."""

    verdict: Verdict
    hands: tuple[str, ...] = ()
    #: "" new message, else duplicate | conflict | tombstone | overloaded | held (in its order line); of `full`: the
    #: bound where it is not the room of the inbox: share | agent | env | sender
    known: str = ""
    error: str = ""
    #: Where one leg was handed over: how many messages lie with its agent now, running or queued, this one and whoever's.
    lying: int = 0

    @property
    def wait_ms(self) -> int:
        """Of the verdict `open`: for how long the circuit keeps everything from that agent."""
        return int(self.known) if self.verdict == "open" else 0


class Record(msgspec.Struct, frozen=True):
    """A ledger record as `inspect` saw it. `receipts` has the terminal receipts as JSON for the legs that have ended."""

    msg_id: str
    head: Head
    legs: dict[int, Leg]
    #: from env:<msg_id> or the inbox entry of the leg that was asked for; b"" = lost or not asked for
    envelope: bytes = b""
    receipts: dict[int, bytes] = {}
    now_ms: int = 0


class Meeting(msgspec.Struct, frozen=True):
    """A source has met an agent, in a conversation that this stamp (hex digits) stands for."""

    source: str
    conversation: str
    agent: str


class Met(msgspec.Struct, frozen=True):
    """Whom a source has met, and when. `here`: in the conversation that was asked about."""

    agent: str
    at_ms: int
    here: bool


class Turn(msgspec.Struct, frozen=True, kw_only=True):
    """What a message does in its conversation. Costs are whole millionths.

    Attributes:
        depth: How many agents are on its path.
        pair: Stands for its sender and its target; "" = it cannot be a loop.
        content: Stands for what it says.
        tokens: What it needs.
        max_hops: The budget that it carries, as max_cost and max_tokens; None = none.
    """

    conversation: str
    msg_id: str
    round: int = 1
    in_reply_to: str = ""
    depth: int = 0
    pair: str = ""
    content: str = ""
    tokens: int = 0
    max_hops: int | None = None
    max_cost: int | None = None
    max_tokens: int | None = None


class Over(msgspec.Struct, frozen=True):
    """What a message would be too much of, and how much of it there is; "" = of nothing: it is counted."""

    what: Literal["", "pair", "content", "hops", "cost", "tokens"] = ""
    spent: int = 0
    allowed: int = 0


class Guard(msgspec.Struct, frozen=True):
    """What a run is told of the guard of an effect.

    mine: it has it for the lease · done: the effect is over, `value` is what was stored · taken: another run has it, for `wait_ms` yet ·
    stale: the leg is not in the hands of the run that asks.
    """

    state: Literal["mine", "done", "taken", "stale"]
    value: bytes = b""
    wait_ms: int = 0


class Taken(msgspec.Struct, frozen=True):
    """A message that this instance now runs. The caller counts its deadline from `total_at_ms - now_ms` on its own monotonic clock."""

    partition: int
    lane: str
    hand: str
    msg_id: str
    leg: int
    attempt: int  # the number of this run, from 1
    envelope: bytes
    now_ms: int
    total_at_ms: int
    processing_ms: int
    #: of a message that has asked: JSON {state, answers: [{prompt: SHA-1, value}]}, else b""
    answers: bytes = b""
    observed: bool = False  # a copy that no handler runs and nobody answers; its entry is gone, its attempt 0


class TakeResult(msgspec.Struct, frozen=True):
    """`cursors` (per lane) are where the bell waits on. `gone`: a lane is missing; open the inbox and take again.

    `more`: not all of what should come again after a lost connection has come; the next take names what is held once more.
    """

    taken: tuple[Taken, ...]
    cursors: dict[str, str]
    gone: bool = False
    expired: int = 0
    more: bool = False


class Settlement(msgspec.Struct, frozen=True):
    """One answer to one hand. `instance` "" = applied by a router for an agent without scripts."""

    msg_id: str
    leg: int
    hand: str
    answer: Answer
    instance: str = ""
    #: >= 0: the return burns no attempt and waits so long (Retry(after), a graceful stop: 0); -1: an ordinary result
    wait_ms: int = -1
    #: whoever settles writes the hop records of the run; where one of a call does not, a router is asked to write those of all
    records: bool = True


class Parking(msgspec.Struct, frozen=True):
    """What a handler asks, and what its next run is given back. `instance` "" = whoever the entry is pending to."""

    msg_id: str
    leg: int
    hand: str
    prompt: bytes  # JSON, at most 64 KiB
    instance: str = ""
    #: JSON, at most 64 KiB; b"" = what was saved before
    state: bytes = b""
    #: how long the question stays open, at most 7 days; 0 = one day
    open_ms: int = 0
    #: the guards of effects that must outlive the question, as `once_take` was given them
    guards: tuple[str, ...] = ()


class DueEvent(msgspec.Struct, frozen=True):
    """What `due` did to one leg; becomes a hop record. what: expired | reclaimed | again | gone | overdue | answered.

    answered: it has ended with the best answer that it had; agent, instance and attempt are those of that answer.
    """

    msg_id: str
    leg: int
    what: str
    agent: str
    instance: str
    attempt: int
    code: str


class DueReport(msgspec.Struct, frozen=True):
    """`next_at_ms`: when the next moment of this partition is due, 0 = none. `deadline_at_ms`: a caller's own message that goes on."""

    events: tuple[DueEvent, ...]
    more: bool
    next_at_ms: int
    now_ms: int
    grace_until_ms: int = 0
    deadline_at_ms: int = 0


class CancelResult(msgspec.Struct, frozen=True):
    """closed: legs that this call ended. what: cancelled | tombstone | ended | denied | newer (a greater round).

    tombstone: nothing of that round has come; its send, and those of lower rounds, will be answered as cancelled.
    denied: the message is another sender's, or has not come and eight others have a tombstone for it.
    """

    what: Literal["cancelled", "tombstone", "ended", "denied", "newer"]
    closed: int = 0


class MailEntry(msgspec.Struct, frozen=True):
    partition: int
    id: str
    kind: Literal["receipt", "notice", "hello"]
    data: bytes


#: What an admin writes field by field, and what changes are told of.
MetaKind = Literal["meta", "routes", "types", "rules"]


class Snapshot(msgspec.Struct, frozen=True):
    """Everything that the capability index is built from. `agents` values are JSON with `v`; `cursor` is where `changes` goes on."""

    version: int
    cursor: str
    agents: dict[str, bytes]
    routes: dict[str, bytes]
    types: frozenset[str]
    meta: dict[str, str]
    circuits: dict[str, bytes] = {}  # agent_id/partition of those that are not closed
    rules: dict[str, bytes] | None = {}  # None: the key holds no hash, so nobody can say what they are
    families: dict[str, bytes] = {}  # of schemas
    gone: dict[str, bytes] = {}  # the tombstones of agents


class Written(msgspec.Struct, frozen=True):
    """What admins have written down for the whole env, as it stood at `version`; fields as those of `Snapshot`."""

    version: int
    routes: dict[str, bytes]
    types: frozenset[str]
    meta: dict[str, str]
    rules: dict[str, bytes] | None


class Circuits(msgspec.Struct, frozen=True):
    """Circuits that are not closed, `agent_id/partition` -> what is to be told of each: as the partition has them, and as the env was told.

    `told` has those of all partitions.
    """

    are: dict[str, bytes]
    told: dict[str, bytes]


class LastBeat(msgspec.Struct, frozen=True):
    """One instance's last beat. `at_ms` by the clock of the backend; `beat` its JSON."""

    agent_id: str
    instance_id: str
    at_ms: int
    beat: bytes


class Change(msgspec.Struct, frozen=True):
    """An entry of `changes`.

    `op`: agent (registered or changed; `data` = the registration) | gone (`name` = the agent, or `agent_id/instance_id` for one instance
    that left) | state (`name` = `agent_id/instance_id`, `data` = the beat) | circuit (`name` = `agent_id/partition`) | route | rule | type
    | meta (`data` = the value, b"" = removed).
    """

    id: str
    version: int
    op: str
    name: str
    data: bytes
    #: Of an agent that has registered: how the instance is that did so; None = the entry does not say so.
    beat: LastBeat | None = None


class BeatResult(msgspec.Struct, frozen=True):
    """known False: no such registration (after FLUSHALL, or removed): register again."""

    known: bool
    now_ms: int


class RegisterResult(msgspec.Struct, frozen=True):
    """ok False: the stored registration is not the one that was read (`expected`): read it again and decide again."""

    ok: bool
    version: int
