"""Whether a leg that came back goes again, and when (PROTOCOL, section 8). The agent only reports; this is where it is judged."""

import msgspec

from reach.envelope.codes import TABLE
from reach.envelope.ledger import Leg
from reach.routing.steps import AT_ONCE, Comeback

BACKOFF_MS = (1_000, 2_000, 4_000, 8_000, 16_000)
MIN_JITTER, MAX_JITTER = 0.8, 1.2
#: What one process held when it died comes back in so long, each at a moment of its own: else all of it would go to the next holder in one
#: take, and what has brought down the first would bring down that one too, and the others with it again (decision 0020).
LOST_SPREAD_MS = 1_000
#: The agent, not the work, was at fault: another one can start at once.
REROUTED = frozenset({"agent.lost", "probe.failed", "context.exceeded"})
#: A return that burns no attempt is bounded by total alone, so its pace has a floor: up to so many in one attempt, at least so long.
FLOORS_MS = ((10, 100), (float("inf"), 1_000))
#: So many times an agent may hand back what it cannot serve (it is told to stop, its probe has failed) with no pause at all.
MAX_AT_ONCE = 3


#: Codes of the table that reach does not retry. A retryable answer with a code of the agent's own is retried like handler.error.
FINAL = frozenset(line.code for line in TABLE if not line.retried_inside)


class _Answered(msgspec.Struct):
    code: str = ""


_core = msgspec.json.Decoder(_Answered)


def backoff_ms(attempt: int, jitter: float) -> int:
    """The wait after so many runs (from 1): 1, 2, 4, 8, 16 s, then always 16, times the jitter."""
    return round(BACKOFF_MS[min(max(attempt, 1), len(BACKOFF_MS)) - 1] * jitter)


def retry_of(leg: Leg, *, max_attempts: int, total_at_ms: int, now_ms: int, jitter: float) -> Comeback:
    """What is to be done with a returned leg.

    Args:
        leg: As the ledger has it; `attempt` already counts the run that came back, unless that burns none.
        max_attempts: All runs that the sender allows.
        total_at_ms: The end of the message.
        now_ms: The moment, by the clock of the backend.
        jitter: Drawn from 0.8 to 1.2, so that what failed together does not come again together.
    """
    if leg.question_hand == leg.hand:  # nothing has failed: what it has asked is answered
        return AT_ONCE
    if leg.best is not None:  # an answer that is not sure enough: one other agent may be asked, and nobody waits
        return Comeback(ends=True) if leg.attempt >= max_attempts else AT_ONCE
    code = code_of(leg)
    if code in FINAL:
        return Comeback(ends=True)
    if leg.attempt >= max_attempts:
        return Comeback(ends=True, dead=True)
    wait_ms = _wait_ms(leg, code, jitter)
    if now_ms + wait_ms >= total_at_ms:
        # Given up after a run: whoever sent it without a reply_to finds it among the dead letters only.
        return Comeback(ends=True, dead=leg.attempt > 0 or leg.wait_ms > 0, late=True)
    if code == "context.exceeded":
        return Comeback(elsewhere=True)
    return Comeback(wait_ms) if wait_ms else AT_ONCE


def code_of(leg: Leg) -> str:
    """The code of the leg's last answer; "" when it has none, or none that can be read."""
    try:
        return _core.decode(leg.core).code if leg.core else ""
    except (msgspec.DecodeError, UnicodeEncodeError):
        return ""


def _wait_ms(leg: Leg, code: str, jitter: float) -> int:
    if leg.wait_ms >= 0:
        return max(leg.wait_ms, _least_ms(leg, code))
    if code == "agent.lost" and leg.attempt > 0:
        return round((jitter - MIN_JITTER) / (MAX_JITTER - MIN_JITTER) * LOST_SPREAD_MS)
    if not code or code in REROUTED:
        return 0
    return backoff_ms(leg.attempt, jitter)


def _least_ms(leg: Leg, code: str) -> int:
    """A handler that always asks to be called again at once must not keep everybody busy until total."""
    if leg.wait_ms == 0 and code in REROUTED and leg.returns <= MAX_AT_ONCE:
        return 0
    return next(floor_ms for most, floor_ms in FLOORS_MS if leg.returns <= most)
