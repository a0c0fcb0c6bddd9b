"""How many instances a capability wants: from what comes for it, what lies there and how long one takes. Pure."""

from math import ceil
from typing import Annotated

import msgspec

#: A slot that is busy all the time has a queue before it: it is to be busy for so much of it.
TARGET_SHARE = 0.7
#: What lies and waits is to be worked off in so long, beside what comes.
CATCH_UP_S = 60.0
#: Of agents that have answered nothing yet.
UNKNOWN_MEAN_S = 1.0
#: So much more or less than what is there is the noise of what comes by chance.
NOISE_SHARE = 0.1
#: Fewer only when fewer would have done for so long: what starts again costs more than what idles.
DOWN_AFTER_MS = 300_000
#: The name under which the result is told; no worker has a colon in its name.
RESULT = ":wanted"


#: What others have told is read within bounds: anybody may have written there.
Count = Annotated[int, msgspec.Meta(ge=0, le=2**53)]


class Demand(msgspec.Struct, frozen=True, kw_only=True):
    """What is asked of one capability, over all routers and agents.

    Attributes:
        arrivals_per_s: Messages that come for it.
        backlog: Messages that lie in inboxes and are not begun.
        waiting: Messages that nobody can take.
        inflight: Messages that are running.
        agents: How many offer it and live.
        instances: Their processes.
        slots: How many messages those run at once.
        mean_s: How long one takes; None: nobody knows.
    """

    arrivals_per_s: float = 0.0
    backlog: int = 0
    waiting: float = 0.0
    inflight: float = 0.0
    agents: int = 0
    instances: int = 0
    slots: int = 0
    mean_s: float | None = None


class Wanted(msgspec.Struct, frozen=True, omit_defaults=True):
    """How many instances are wanted, held steady: since when fewer would do, and the most that was needed since then."""

    instances: Count
    low_since_ms: Count = 0
    low_peak: Count = 0


class Line(msgspec.Struct, frozen=True, omit_defaults=True):
    """One capability: what is asked of it, and how many instances it wants."""

    capability: str
    demand: Demand
    wanted: Wanted


class Result(msgspec.Struct, frozen=True):
    """All capabilities that anything is asked of, as of `at_ms`."""

    at_ms: int
    lines: tuple[Line, ...] = ()


_result = msgspec.json.Decoder(Result).decode


def needed(demand: Demand) -> int:
    """The instances that this demand needs, by itself: none where there is nothing to do."""
    to_do = demand.backlog + demand.waiting
    if not (demand.arrivals_per_s > 0 or to_do > 0 or demand.inflight > 0):
        return 0
    mean_s = demand.mean_s if demand.mean_s is not None else UNKNOWN_MEAN_S
    # Little's law: so many run at once on average.
    slots = (demand.arrivals_per_s + to_do / CATCH_UP_S) * mean_s / TARGET_SHARE
    each = demand.slots / demand.instances if demand.instances else 1.0
    return max(ceil(slots / max(each, 1.0) - 1e-9), 1)


def steady(held: Wanted | None, instances: int, now_ms: int, down_after_ms: int = DOWN_AFTER_MS) -> Wanted:
    """What is wanted now: more at once, fewer only after a while, and neither for the sake of noise."""
    if held is None:
        return Wanted(instances)
    least = held.instances - held.instances * NOISE_SHARE
    if least <= instances <= held.instances + held.instances * NOISE_SHARE:
        return Wanted(held.instances)
    if instances > held.instances:
        return Wanted(instances)
    since_ms = held.low_since_ms if 0 < held.low_since_ms <= now_ms else now_ms
    peak = max(held.low_peak, instances) if since_ms == held.low_since_ms else instances
    if now_ms - since_ms >= down_after_ms:
        return Wanted(peak)
    return Wanted(held.instances, since_ms, peak)


def read_result(told: bytes) -> Result:
    """What was told as wanted; nothing where nobody can read it."""
    try:
        return _result(told)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return Result(0)
