"""The same steps on dicts: embedded mode, the test kit, and the readable specification of what the scripts do in Redis.

To read it: `store` and `streams` are Redis, `partition` is what every script starts with, then one file per step.
"""

from reach.backend.memory_backend.backend import MemoryBackend
from reach.backend.memory_backend.side import Hook
from reach.backend.memory_backend.store import STORES, Store

__all__ = ["STORES", "Hook", "MemoryBackend", "Store"]
