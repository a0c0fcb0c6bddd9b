"""The port on Redis: one file per side."""

from reach.backend.redis_backend.backend import RedisBackend

__all__ = ["RedisBackend"]
