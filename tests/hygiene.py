"""What a used Redis may hold: only keys of the table, each of its type and with its lifetime."""

import re
from collections.abc import Iterable

import redis

from reach.backend.key_faults import fault_of, pattern_of

__all__ = ["fault_of", "pattern_of", "walk"]


def walk(url: str, allowed: Iterable[str] = ()) -> list[str]:
    """The faults of all keys of a server. `allowed`: regular expressions of names that are the test's own business."""
    own = [re.compile(pattern) for pattern in allowed]
    faults = []
    with redis.Redis.from_url(url) as client:
        for raw_key in client.scan_iter(count=1000):
            key = raw_key.decode(errors="backslashreplace")
            if any(pattern.fullmatch(key) for pattern in own):
                continue
            kind = client.type(raw_key).decode()
            pttl_ms = client.pttl(raw_key)
            if kind == "none" or pttl_ms == -2:
                continue  # it expired between two looks
            fault = fault_of(key, kind, pttl_ms)
            if fault is not None:
                faults.append(fault)
    return faults
