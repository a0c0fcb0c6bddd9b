"""Which traces are kept: every one that failed, was retried or was slow, and a share of the rest. Decided when a trace has ended.

What is told at once (a failure, a retry, the share, which hangs on the id of the trace alone) is not held; the rest is held until its
messages have ended and nothing more has come for a while, or until it is so old that it is slow.
"""

import hashlib
from collections.abc import Mapping
from typing import Final, Generic, NamedTuple, TypeVar

import msgspec

from reach.errors import ConfigError
from reach.tracing.naming import DUPLICATE
from reach.tracing.record import HopRecord

T = TypeVar("T")

GOOD_CODES: Final = frozenset({"", "ok", "input_required", DUPLICATE})  # a run that asks has not failed, nor has a copy
#: not failed, but worth a look
RETRIED: Final = frozenset({"message.retried", "message.moved", "message.reclaimed", "message.expired", "message.dead"})
OPENS: Final = frozenset({"message.received", "route.sent", "agent.received"})
ENDS: Final = frozenset({
    "agent.completed",
    "message.delivered",
    "message.rejected",
    "message.expired",
    "message.dead",
    "message.cancelled",
    "route.failed",
})  # fmt: skip
SETTLE_US = 2_000_000
MAX_HELD = 50_000
REMEMBERED = 50_000
SWEEP_US = 250_000
DEV_SHARE, SHARE = 1.0, 0.1


class Sampling(msgspec.Struct, frozen=True, kw_only=True):
    """What is kept. `heeds_sender`: the share is taken only of what the sender marked as sampled. `off`: nothing at all is kept."""

    share: float = 1.0
    slow_us: int = 10_000_000
    heeds_sender: bool = True
    off: bool = False


def sampling_of(environ: Mapping[str, str], *, share: float | None, slow_ms: int, env: str) -> Sampling:
    """What the settings and `OTEL_TRACES_SAMPLER(_ARG)` say. A share that is given wins; without both: all in env `dev`, else a tenth.

    Raises:
        ConfigError: A sampler that there is not, or an argument that is no ratio.
    """
    name = environ.get("OTEL_TRACES_SAMPLER", "").strip().lower()
    based, kind = name.startswith("parentbased_"), name.removeprefix("parentbased_")
    if kind not in {"", "always_on", "always_off", "traceidratio"}:
        raise ConfigError(
            f"OTEL_TRACES_SAMPLER: {name!r} is not one of always_on, always_off, traceidratio, parentbased_..."
        )
    said = {"always_on": 1.0, "always_off": 0.0}.get(kind)
    if kind == "traceidratio":
        said = _ratio(environ.get("OTEL_TRACES_SAMPLER_ARG") or "1")
    usual = DEV_SHARE if env == "dev" else SHARE
    of_all = share if share is not None else said if said is not None else usual
    return Sampling(share=of_all, slow_us=slow_ms * 1000, heeds_sender=based or not kind, off=name == "always_off")


def _ratio(text: str) -> float:
    try:
        ratio = float(text)
    except ValueError:
        ratio = -1.0
    if not 0 <= ratio <= 1:
        raise ConfigError(f"OTEL_TRACES_SAMPLER_ARG: {text!r} is no ratio from 0 to 1")
    return ratio


class Item(NamedTuple, Generic[T]):
    """A record, and what it belongs to for whoever asks."""

    record: HopRecord
    of: T


class Decided(NamedTuple, Generic[T]):
    """What was decided by one call."""

    kept: list[Item[T]]
    dropped: list[Item[T]]


class _Trace(Generic[T]):
    """One that is held."""

    __slots__ = ("ended", "first_us", "items", "last_us", "opened")

    def __init__(self, first_us: int) -> None:
        self.first_us = self.last_us = first_us
        self.items: list[Item[T]] = []
        self.opened: set[tuple[str, int]] = set()
        self.ended: set[tuple[str, int]] = set()

    def add(self, item: Item[T]) -> None:
        record = item.record
        self.items.append(item)
        self.first_us = min(self.first_us, record.at_us - record.duration_us)
        self.last_us = max(self.last_us, record.at_us)
        leg = (record.msg_id, record.leg)
        if record.point in ENDS and record.code != "input_required":
            self.ended.add(leg)
        elif record.point in OPENS:
            self.opened.add(leg)


class TailSampler(Generic[T]):
    """Decides per trace. Bounded: over `max_held` records the oldest traces are let go of. `let_go` counts those."""

    def __init__(self, sampling: Sampling, *, max_held: int = MAX_HELD, settle_us: int = SETTLE_US) -> None:
        self._sampling, self._max_held, self._settle_us = sampling, max_held, settle_us
        self._traces: dict[str, _Trace[T]] = {}
        self._kept: dict[str, None] = {}  # the newest last
        self._swept_us = 0
        self.held = 0
        self.let_go = 0

    def add(self, record: HopRecord, of: T) -> Decided[T]:
        """Take one in."""
        item = Item(record, of)
        if record.point == "gap":
            return Decided([item], [])
        if not record.trace_id or self._sampling.off:
            return Decided([], [item])
        if record.trace_id in self._kept or self._in_share(record):
            return Decided([item], [])
        trace = self._traces.get(record.trace_id)
        if trace is None:
            trace = self._traces[record.trace_id] = _Trace(record.at_us)
        trace.add(item)
        self.held += 1
        if _is_worth_it(record) or trace.last_us - trace.first_us >= self._sampling.slow_us:
            return Decided(self._keep(record.trace_id), [])
        dropped: list[Item[T]] = []
        while self.held > self._max_held:
            self.let_go += 1
            dropped += self._take(next(iter(self._traces)))
        return Decided([], dropped)

    def due(self, now_us: int) -> Decided[T]:
        """Decide what has been held for long enough by now: the moment up to which all records are known to be here."""
        decided: Decided[T] = Decided([], [])
        if abs(now_us - self._swept_us) < SWEEP_US:
            return decided
        self._swept_us = now_us
        for trace_id, trace in list(self._traces.items()):
            if trace.opened <= trace.ended:
                if now_us - trace.last_us >= self._settle_us:
                    decided.dropped.extend(self._take(trace_id))
            elif now_us - trace.first_us >= self._sampling.slow_us:
                decided.kept.extend(self._keep(trace_id))
        return decided

    def _in_share(self, record: HopRecord) -> bool:
        if self._sampling.heeds_sender and not record.sampled:
            return False
        return is_in_share(record.trace_id, self._sampling.share)

    def _keep(self, trace_id: str) -> list[Item[T]]:
        self._kept[trace_id] = None
        if len(self._kept) > REMEMBERED:
            del self._kept[next(iter(self._kept))]
        return self._take(trace_id)

    def _take(self, trace_id: str) -> list[Item[T]]:
        items = self._traces.pop(trace_id).items
        self.held -= len(items)
        return items


def is_in_share(trace_id: str, share: float) -> bool:
    """Whether it is one of this share: the same in every process. Not by its own bits: a trace that began here has a UUID as its id."""
    if share >= 1:
        return True
    digits = hashlib.blake2b(trace_id.encode(), digest_size=7).digest()
    return int.from_bytes(digits, "big") < share * (1 << 56)


def _is_worth_it(record: HopRecord) -> bool:
    return record.code not in GOOD_CODES or record.point in RETRIED or record.attempt > 1
