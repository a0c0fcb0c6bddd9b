"""How the benchmarks measure: CPU of whole processes, CPU of the server, percentiles, medians with their range."""

import os
import statistics
from collections.abc import Sequence
from pathlib import Path

import redis

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")


def process_cpu_s(pid: int) -> float:
    """User and system seconds of a process so far (Linux: /proc)."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS_PER_S


def server_cpu_s(client: redis.Redis) -> float:
    """Seconds that the server has burnt so far, as INFO cpu says."""
    info = client.info("cpu")
    assert isinstance(info, dict)
    return float(info["used_cpu_user"]) + float(info["used_cpu_sys"])


def percentile(values: Sequence[float], p: float) -> float:
    """The p-th percentile (0..100), nearest rank."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * p / 100))]


def spread(values: Sequence[float], digits: int = 0) -> str:
    """`median (min-max)`."""
    return f"{statistics.median(values):,.{digits}f} ({min(values):,.{digits}f}-{max(values):,.{digits}f})"


def ratio(values: Sequence[float], others: Sequence[float]) -> str:
    """The ratio pair by pair: of two rows that were measured in turn, so that a drifting machine cancels out."""
    return spread([a / b for a, b in zip(values, others, strict=True)], 2)
