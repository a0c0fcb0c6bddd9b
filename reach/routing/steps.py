"""What `decide` answers with: a step for every leg, and why, for those who ask later."""

from typing import Any

import msgspec

#: A hop record carries at most so many candidates.
MAX_TOLD = 20


class Deliver(msgspec.Struct, frozen=True, tag=True):
    """Append it to this agent's inbox. `via`: the pattern that it fell back to; "" = it answers the message's own."""

    agent: str
    via: str = ""


class Delay(msgspec.Struct, frozen=True, tag=True):
    """Decide again after `wait_ms`, counted from now. `agent`: the leg is this agent's (scope all); "" = still open."""

    wait_ms: int
    agent: str = ""


class Hold(msgspec.Struct, frozen=True, tag=True):
    """It is this agent's, when the stages before its own are over."""

    agent: str


class Observe(msgspec.Struct, frozen=True, tag=True):
    """Show this agent a copy: it is in no stage, and answers nothing."""

    agent: str


class Finish(msgspec.Struct, frozen=True, tag=True):
    """End the leg with this code. `last`: with the answer that the leg already has. `dead`: keep it as a dead letter as well.

    `agent`: the leg is this agent's (scope all).
    """

    code: str
    message: str
    details: dict[str, Any] = {}
    retry_after_ms: int | None = None
    last: bool = False
    dead: bool = False
    agent: str = ""


class Move(msgspec.Struct, frozen=True, tag=True):
    """Take it out of the inbox where nobody has touched it, and put it into this agent's. `free`: it does not count as a move.

    `room`: only while less than that lies there; 0 = any number. `via`: as of `Deliver`.
    """

    agent: str
    free: bool = False
    room: int = 0
    via: str = ""


class Stay(msgspec.Struct, frozen=True, tag=True):
    """Leave it where it is."""


Step = Deliver | Delay | Finish | Move | Stay | Hold | Observe


class Seen(msgspec.Struct, frozen=True, omit_defaults=True):
    """One candidate, and the filter that refused it, with the reason in words; no filter = it fitted, the reason why it was passed over."""

    agent: str
    filter: str = ""
    reason: str = ""
    score: float | None = None


class Why(msgspec.Struct, frozen=True, omit_defaults=True):
    """How the choice came about. `counts`: matched, fit, and how many each filter refused. `via`: the pattern that it fell back to.

    `tier`: the tier that was needed, and why; "" = nobody asked.
    """

    strategy: str = ""
    candidates: tuple[Seen, ...] = ()
    counts: dict[str, int] = {}
    chosen: tuple[str, ...] = ()
    via: str = ""
    tier: str = ""


class Choice(msgspec.Struct, frozen=True):
    """The decision: `steps[i]` is for leg i of a first send; one step for an again.

    `max_process_ms`: the longest that a chosen agent declares for this work, 0 = it declares nothing. `stages`: how many legs each
    stage has; the first legs are those of the first stage.
    """

    steps: tuple[Step, ...]
    why: Why = Why()
    max_process_ms: int = 0
    stages: tuple[int, ...] = ()


class Comeback(msgspec.Struct, frozen=True):
    """What the rules of retrying say to a leg that came back, before anybody is looked for.

    Attributes:
        wait_ms: Go again after so long, counted from now; 0 = at once.
        ends: No further run: the leg ends with the answer that it has.
        dead: It ends as a dead letter.
        late: It ends only because its next run would come too late: one that begins at once may still help.
        elsewhere: Only an agent that has not had it may have it.
    """

    wait_ms: int = 0
    ends: bool = False
    dead: bool = False
    late: bool = False
    elsewhere: bool = False


AT_ONCE = Comeback()
