"""Where bytes are kept: one port, two backends (Redis, memory). The only package that imports redis."""

from reach.backend.port import Backend
from reach.errors import ConfigError
from reach.ids import DEFAULT_ENV, is_env

__all__ = ["Backend", "open_backend"]


def open_backend(url: str, *, env: str = DEFAULT_ENV) -> Backend:
    """The backend of a URL, for one env. Connects to nothing yet: `await backend.open()` does, and reads the number of partitions.

    Args:
        url: `redis://`, `rediss://` (TLS) or `unix://` for Redis and Valkey; `memory://<name>` for this process only, where two
            backends of one name share what they hold.
        env: The environment: lower-case letters, digits and `-`, at most 32.

    Raises:
        ConfigError: The URL or the env cannot be used.
    """
    if not is_env(env):
        raise ConfigError(f"{env!r} is no env: lower-case letters, digits and -, at most 32", details={"field": "env"})
    scheme, colon, name = url.partition("://")
    if not colon or scheme not in ("redis", "rediss", "unix", "memory"):
        raise ConfigError(
            f"{scheme}:// is no backend: redis://, rediss://, unix:// or memory://", details={"field": "url"}
        )
    if scheme == "memory":
        from reach.backend.memory_backend import MemoryBackend

        return MemoryBackend(name, env=env)
    from reach.backend.redis_backend import RedisBackend

    return RedisBackend(url, env=env)
