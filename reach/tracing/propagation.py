"""W3C trace context: read it, write it, and name spans so that processes agree on them without talking.

An envelope is carried byte for byte, so a router cannot write its own span into `traces.traceparent`. Instead the id of every span is
made from what it is about (`reach.tracing.naming`): whoever records the next hop computes the id of its parent.
"""

import hashlib
import re
from functools import lru_cache
from typing import NamedTuple

_TRACEPARENT = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?", re.DOTALL)
_STATE_MEMBER = re.compile(
    r"(?:[a-z][a-z0-9_\-*/]{0,255}|[a-z0-9][a-z0-9_\-*/]{0,240}@[a-z][a-z0-9_\-*/]{0,13})"
    r"=[\x20-\x2b\x2d-\x3c\x3e-\x7e]{0,255}[\x21-\x2b\x2d-\x3c\x3e-\x7e]"
)
MAX_STATE_MEMBERS = 32
MAX_STATE_CHARS = 512
SAMPLED = 0x01


class TraceContext(NamedTuple):
    """Where a message stands in a trace: 32 and 16 hex digits, the flags, and the vendors' state."""

    trace_id: str
    span_id: str
    flags: int = SAMPLED
    state: str = ""

    @property
    def sampled(self) -> bool:
        """Whether the caller records this trace."""
        return bool(self.flags & SAMPLED)


def parse_traceparent(traceparent: str | None, tracestate: str | None = None) -> TraceContext | None:
    """The context that was sent; None where there is none or it is malformed (the standard: then start anew)."""
    if traceparent is None:
        return None
    found = _TRACEPARENT.fullmatch(traceparent)
    if found is None:
        return None
    version, trace_id, span_id, flags, rest = found.groups()
    if version == "ff" or (version == "00" and rest is not None) or not int(trace_id, 16) or not int(span_id, 16):
        return None
    return TraceContext(trace_id, span_id, int(flags, 16), parse_tracestate(tracestate))


def parse_tracestate(tracestate: str | None) -> str:
    """The state as it is handed on; "" where it is absent or malformed."""
    if not tracestate or len(tracestate) > MAX_STATE_CHARS:
        return ""
    members = [member.strip(" \t") for member in tracestate.split(",")]
    members = [member for member in members if member]
    if len(members) > MAX_STATE_MEMBERS or not all(_STATE_MEMBER.fullmatch(member) for member in members):
        return ""
    if len({member.partition("=")[0] for member in members}) != len(members):
        return ""
    return ",".join(members)


def make_traceparent(context: TraceContext) -> str:
    """The header of a context; only the flag that version 00 defines is kept."""
    return f"00-{context.trace_id}-{context.span_id}-{context.flags & SAMPLED:02x}"


@lru_cache(maxsize=1024)  # a router asks three times for each message
def trace_of(msg_id: str, traceparent: str | None) -> TraceContext:
    """The trace that a message belongs to: the sender's, else one of its own (the id is the message's, no span is its parent)."""
    context = parse_traceparent(traceparent)
    if context is not None:
        return context
    digits = msg_id.replace("-", "")
    if len(digits) != 32 or not digits.strip("0"):
        digits = hashlib.blake2b(msg_id.encode(), digest_size=16).hexdigest()
    return TraceContext(digits, "")


@lru_cache(maxsize=1024)  # the id of one hop is that of the parent of the next two or three
def span_id_of(msg_id: str, *what: str | int) -> str:
    """The id of a span of a message, named after what it is about: the same in every process."""
    named = "|".join((msg_id, *map(str, what)))
    digits = hashlib.blake2b(named.encode(), digest_size=8).hexdigest()
    return digits if digits.strip("0") else "1".rjust(16, "0")
