"""The ledger record: what a partition remembers of one message. Written by scripts only; msgpack, with short names on the wire.

A record of scope `one` is one string, `[head, leg]`; of scope `all` a hash with `h` (the head) and a field per leg number.
"""

from enum import StrEnum
from typing import Literal

import msgspec


class LegState(StrEnum):
    """Where a leg is. The transitions are the table in `reach.delivery.states`."""

    NEW = "new"
    QUEUED = "queued"
    HELD = "held"
    WAITING = "waiting"
    OBSERVED = "observed"
    RUNNING = "running"
    RETURNED = "returned"
    PARKED = "parked"
    DONE = "done"
    CANCELLED = "cancelled"
    EXPIRED = "expired"


OPEN_STATES = frozenset(
    {LegState.QUEUED, LegState.HELD, LegState.WAITING, LegState.RUNNING, LegState.RETURNED, LegState.PARKED}
)


class Stage(msgspec.Struct, frozen=True, array_like=True):
    """A stage of a broadcast (process_order): the legs that it has, and how far they are."""

    first: int  # the number of its first leg
    count: int
    open: int
    failed: int = 0  # ended without a success


class Head(
    msgspec.Struct,
    frozen=True,
    omit_defaults=True,
    rename={
        "form": "v",
        "fingerprint": "fp",
        "sender": "s",
        "scope": "sc",
        "round": "ro",
        "lane": "la",
        "ttl_ms": "tt",
        "network_ms": "ne",
        "processing_ms": "pr",
        "total_ms": "to",
        "not_before_ms": "nb",
        "max_attempts": "ma",
        "min_confidence": "mc",
        "line": "li",
        "stages": "sg",
        "goes_on": "go",
        "shows_large": "ob",
        "mailboxes": "rt",
        "members": "j",
        "tombstones": "tomb",
        "stopped": "sp",
        "counted": "ic",
        "accepted_at_ms": "at",
        "first_at_ms": "fa",
        "total_at_ms": "ta",
        "latest_at_ms": "xa",
        "open": "op",
        "legs": "ls",
    },
):
    """The part of a record that all legs share. The last six fields are set by `route`, by Redis TIME; a router leaves them 0."""

    fingerprint: str
    sender: str
    scope: Literal["one", "all"]
    lane: Literal["high", "normal", "low"]
    ttl_ms: int
    network_ms: int
    processing_ms: int
    total_ms: int
    max_attempts: int
    #: JSON members, without braces, that every receipt of the message starts with: msg_id, task_id, correlation_id, version, durability
    members: str
    mailboxes: tuple[str, ...] = ()
    round: int = 1
    not_before_ms: int = 0
    min_confidence: float = 0.0
    line: str = ""  # the name of its order line; "" = it is in none
    #: of a broadcast with an order: its legs are numbered stage by stage, and behind the last stage come those who only observe
    stages: tuple[Stage, ...] = ()
    goes_on: bool = False  # past a stage that has failed
    shows_large: bool = False  # who observes is shown bytes that lie in env
    form: int = 1
    #: sender -> the round up to which it cancelled the message before it came; nothing else is known of such a message
    tombstones: dict[str, int] = {}
    stopped: int = 0  # the greatest round whose cancel came before its send, when a lower one had ended retryable
    counted: bool = False  # among the open messages of its partition, since those are bounded
    accepted_at_ms: int = 0
    first_at_ms: int = 0  # the first hand-over must have happened by then
    total_at_ms: int = 0
    latest_at_ms: int = 0  # until then a leg that was parked may go on, past the total of the others
    open: int = 0  # legs that have no terminal receipt yet
    legs: int = 0


class Best(
    msgspec.Struct,
    frozen=True,
    rename={
        "confidence": "c",
        "code": "cd",
        "core": "rc",
        "details": "dt",
        "agent": "a",
        "instance": "i",
        "duration_ms": "du",
    },
):
    """A success that is less sure than its sender wants. It stands until another run has given a better one."""

    confidence: float
    code: str
    core: str  # as it will be delivered: with partial true
    details: str
    agent: str
    instance: str
    duration_ms: int


class Given(msgspec.Struct, frozen=True, rename={"prompt": "p", "value": "v", "agent": "a"}):
    """The answer to a question."""

    prompt: str  # SHA-1 of what was asked, in hex
    value: str  # JSON
    agent: str = ""  # who has asked


class Leg(
    msgspec.Struct,
    frozen=True,
    omit_defaults=True,
    rename={
        "state": "st",
        "agent": "a",
        "hand": "h",
        "attempt": "n",
        "moves": "mv",
        "left": "lf",
        "returns": "fr",
        "instance": "i",
        "queued_at_ms": "q",
        "taken_at_ms": "tk",
        "alive_at_ms": "al",
        "due_at_ms": "d",
        "rearm": "re",
        "handed": "f",
        "wait_ms": "w",
        "until_ms": "u",
        "rooms": "wr",
        "woken_by": "wa",
        "joined": "jn",
        "settled": "se",
        "tried": "tr",
        "status": "ss",
        "code": "cd",
        "core": "rc",
        "details": "dt",
        "history": "hi",
        "best": "b",
        "question_hand": "qh",
        "prompt": "qp",
        "answers": "qa",
        "answered": "qd",
        "saved": "sv",
        "left_ms": "lm",
        "total_at_ms": "ta",
        "via": "vi",
        "by_agent": "ba",
        "by_instance": "bi",
        "finished_at_ms": "fi",
        "attempts": "as",
        "duration_ms": "du",
        "queue_ms": "qm",
    },
):
    """One target slot of a message. `hand` is the id of the inbox entry that `route` appended for it, "0" before the first one."""

    state: LegState
    agent: str = ""
    hand: str = "0"
    attempt: int = 0  # runs that started and ended retryable, lost or over-deadline
    moves: int = 0  # within this attempt; those from an inbox that nobody read do not count
    left: tuple[str, ...] = ()  # the agents that it was moved away from, within this attempt
    returns: int = 0  # of this attempt that burnt none: Retry(after), a graceful stop, a failed probe
    instance: str = ""
    queued_at_ms: int = 0  # of one that was held: since when somebody is looked for
    taken_at_ms: int = 0
    alive_at_ms: int = 0  # last sign of life of the handler
    due_at_ms: int = 0
    rearm: int = 0  # how often `due` has put an `again` for this hand: 3, 6, 12, then every 15 s
    handed: bool = False  # was taken at least once: its ttl is over for good
    wait_ms: int = -1  # what Retry(after) asked for; such a return burns no attempt
    until_ms: int = 0  # a waiting leg may go on from then
    rooms: tuple[str, ...] = ()  # <agent>:<bound>: the queues for room that it stands in while it waits
    woken_by: str = ""  # the one of them, or <agent>:, where room came before that moment
    joined: bool = False  # it has its place in the line; what is not to go before a moment joins when it is due
    settled: bool = False  # the last change was an answer of its holder: the same answer again is no news
    tried: tuple[str, ...] = ()
    status: Literal["", "success", "failed", "retryable"] = ""  # of the last answer
    code: str = ""
    core: str = ""  # the last answer: a receipt's JSON object without details and without what the script fills in
    details: str = ""  # its details: a JSON object
    history: tuple[str, ...] = ()  # JSON objects {attempt, agent, code, at}
    best: Best | None = None  # while one other agent is asked for a better one
    question_hand: str = ""  # the hand that parked it last
    prompt: str = ""  # JSON: what is asked, while it is parked
    answers: tuple[Given, ...] = ()  # to what was asked before, in order
    answered: str = (
        ""  # SHA-1 of the hand and the value of the last answer: whoever heard no reply knows by it that it was taken
    )
    saved: str = ""  # JSON: what the next run is given back
    left_ms: int = 0  # of its total, while it is parked
    total_at_ms: int = (
        0  # its own, since it was parked: until when the question is open, then when its total is over; 0 = the head's
    )
    via: str = ""  # how it came to its agent, where that was not by its own pattern: "fallback"; its receipt says so
    by_agent: str = ""  # whose answer the receipt has, where that is not the one who held it last
    by_instance: str = ""
    finished_at_ms: int = 0
    attempts: int = 0  # as the terminal receipt says them
    duration_ms: int = 0
    queue_ms: int = -1  # until the first take, or the first return; -1 = not measured yet


def ends_at_ms(head: Head, leg: Leg) -> int:
    """When the leg's total is over. Who waits for its stage waits for a question there too."""
    if leg.total_at_ms:
        return leg.total_at_ms
    waits_for_stage = leg.state is LegState.HELD and head.scope == "all"
    return max(head.total_at_ms, head.latest_at_ms) if waits_for_stage else head.total_at_ms
