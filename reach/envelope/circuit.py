"""The circuit of an agent: what its runs say of it, and what follows. Plain: rows and moments in, rows out.

The scripts carry the same rules (`lua/parts/health.lua`, `circuits.lua`): a row of the hash `health` is written by them alone.
"""

import re
from typing import Literal

import msgspec

from reach.errors import RecordError
from reach.ids import count_of

#: Failures in a row that open it, or more than half of at least so many in 30 s.
IN_A_ROW, LEAST = 5, 20
#: So long it stays open before one probe may go, and so long after that probe has started until the next.
OPEN_MS = 30_000
#: Who asks while a probe is under way is to ask again after so long.
BUSY_MS = 1_000
SLOT_MS, SLOTS = 5_000, 6
#: Of a process that dies each message is noticed that it had in hand, all within a lease.
DEATH_MS = 15_000
#: Silence of a run is its agent's fault from so long on, however little time its sender gave it.
SILENT_MS = 15_000
#: Under this name the hash keeps the names of all agents whose circuit is not closed; no agent_id begins so.
LISTED = "*"

#: Retryable answers that say what the agent is asked for, and not how it is.
ANSWERS = frozenset({"context.exceeded", "overloaded", "capacity.exhausted"})
#: Retryable answers of runs that were cut off: they speak against the agent where it was at fault.
TIMEOUTS = frozenset({"timeout.processing", "timeout.total"})
#: Retryable answers that say nothing of the agent.
SAYS_NOTHING = frozenset({"agent.lost", "backend.unavailable"})

State = Literal["closed", "open", "half_open"]
Event = Literal["opened", "waited", "probe good", "probe bad"]

#: The whole of it. What is not here changes nothing: while it is not closed, only the probe counts.
TRANSITIONS: dict[tuple[State, Event], State] = {
    ("closed", "opened"): "open",
    ("open", "waited"): "half_open",
    ("half_open", "probe good"): "closed",
    ("half_open", "probe bad"): "open",
    ("open", "probe good"): "closed",  # a probe that has started: the next one is 30 s away
    ("open", "probe bad"): "open",
}

_ROW = re.compile(rb"([0-9]+) ([0-9]+) ([0-9]+) (\S+) (\S+)")
_SLOT = re.compile(rb"([0-9]+):([0-9]+):([0-9]+)")
_PROBE = re.compile(r"([^/]+)/([0-9]+)/(.+)", re.DOTALL)


class Row(msgspec.Struct):
    """How an agent is, in one partition. `slots`: number -> (good, bad) in 5 s, of the last 30 s."""

    run: int = 0
    opened_at_ms: int = 0  # 0 = closed; that of the probe when one has started
    died_at_ms: int = 0  # when a death was counted last
    probe: str = "-"  # <msg_id>/<leg>/<hand>
    slots: dict[int, tuple[int, int]] = {}

    def state(self, now_ms: int) -> State:
        """A moment of the future was made before the clock stepped back: the wait is over."""
        if not self.opened_at_ms:
            return "closed"
        return "open" if self.opened_at_ms <= now_ms < self.opened_at_ms + OPEN_MS else "half_open"

    @property
    def why(self) -> str:
        """Why it was opened, in words."""
        return f"{self.run} failures in a row" if self.run >= IN_A_ROW else "more than half of its runs failed"

    @property
    def told(self) -> bytes:
        """What is told of it while it is not closed."""
        return _encode(OpenCircuit(self.opened_at_ms + OPEN_MS, self.why))

    @property
    def fails(self) -> bool:
        """Whether too many have failed of what has been counted."""
        good, bad = (sum(each[at] for each in self.slots.values()) for at in (0, 1))
        return self.run >= IN_A_ROW or (good + bad >= LEAST and bad * 2 > good + bad)

    def text(self) -> bytes:
        """As it is stored."""
        slots = ",".join(f"{number}:{good}:{bad}" for number, (good, bad) in sorted(self.slots.items()))
        text = f"{self.run} {self.opened_at_ms} {self.died_at_ms} {self.probe} {slots or '-'}"
        return text.encode("latin-1")


def row_of(stored: bytes | None, now_ms: int) -> Row:
    """The row that is stored, without slots that are too old; what lies there by accident counts as nothing: the circuit is closed."""
    found = _ROW.fullmatch(stored or b"")
    if found is None:
        return Row()
    run, opened_at_ms, died_at_ms = (count_of(found[at]) or 0 for at in (1, 2, 3))
    slot, slots = now_ms // SLOT_MS, {}
    for text, good, bad in _SLOT.findall(found[5]):
        number = count_of(text)
        if number is not None and slot - SLOTS < number <= slot:
            slots[number] = (count_of(good) or 0, count_of(bad) or 0)
    return Row(run, opened_at_ms, died_at_ms, found[4].decode("latin-1"), slots)


def counted(row: Row, probe: str, now_ms: int, *, good: bool, before: bool = False, death: bool = False) -> Row | None:
    """The row after a run's end that says something of its agent. None: the circuit is closed by it, and the row goes.

    Args:
        row: As it was.
        probe: The run as a row names it.
        now_ms: The moment.
        good: Whether it speaks for the agent.
        before: The message has failed at this agent before: that it does so again is no news of the agent.
        death: Its holder has died: that counts once, however many messages it had in hand.
    """
    slot = now_ms // SLOT_MS
    if row.opened_at_ms:
        if row.probe != probe:
            return row
        if good:
            return None
        died_at_ms = now_ms if death else row.died_at_ms
        return msgspec.structs.replace(row, run=row.run + 1, opened_at_ms=now_ms, died_at_ms=died_at_ms, probe="-")
    if before and not good:
        return row
    if death and row.died_at_ms and now_ms - row.died_at_ms < DEATH_MS:
        return msgspec.structs.replace(row, died_at_ms=min(row.died_at_ms, now_ms))  # the clock has stepped back
    were_good, were_bad = row.slots.get(slot, (0, 0))
    after = msgspec.structs.replace(
        row,
        run=0 if good else row.run + 1,
        died_at_ms=now_ms if death else row.died_at_ms,
        slots=row.slots | {slot: (were_good + good, were_bad + (not good))},
    )
    if not good and after.fails:
        after.opened_at_ms = now_ms
    return after


def speaks_for(status: str, code: str, wait_ms: int, *, hung: bool) -> bool | None:
    """What an answer says of its agent: that it is well, that it is not, or (None) nothing.

    What burns no attempt says nothing, but that `Retry(after=...)` is an answer. `hung`: it was cut off when it
    had long been silent, or by what its agent declares.
    """
    if status != "retryable" or code in ANSWERS or (wait_ms >= 0 and code == "handler.retry"):
        return True
    if wait_ms >= 0 or code in SAYS_NOTHING or (code in TIMEOUTS and not hung):
        return None
    return False


def probe_of(msg_id: str, number: int, hand: str) -> str:
    """A run as a row names it."""
    return f"{msg_id}/{number}/{hand}"


def run_of(probe: str) -> tuple[str, int, str] | None:
    """Message, leg and hand that a row names; None: no run."""
    found = _PROBE.fullmatch(probe)
    number = count_of(found[2]) if found is not None else None
    return (found[1], number, found[3]) if found is not None and number is not None else None


class OpenCircuit(msgspec.Struct, frozen=True):
    """What is told of a circuit that is not closed: before `until_ms` nothing is handed over, then one probe; and why."""

    until_ms: int
    why: str


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(OpenCircuit).decode


def decode_circuit(data: bytes) -> OpenCircuit:
    """What is told of a circuit.

    Raises:
        RecordError: Junk.
    """
    try:
        return _decode(data)
    except msgspec.DecodeError as error:
        raise RecordError(f"circuit: {str(error)[:200]}") from None
