"""A backend by its URL."""

import pytest

from reach.backend import open_backend
from reach.backend.memory_backend import MemoryBackend
from reach.backend.redis_backend import RedisBackend
from reach.errors import ConfigError


@pytest.mark.parametrize("url", ["redis://localhost:6379/0", "rediss://u:p@localhost", "unix:///tmp/redis.sock"])
def test_redis_by_its_schemes(url: str) -> None:
    backend = open_backend(url, env="prod-1")
    assert isinstance(backend, RedisBackend)
    assert (backend.env, backend.partitions) == ("prod-1", 1)


def test_memory_by_its_name() -> None:
    assert isinstance(open_backend("memory://here"), MemoryBackend)
    assert open_backend("memory://").env == "dev"


@pytest.mark.parametrize("url", ["", "localhost:6379", "http://localhost", "amqp://u:secret@host"])
def test_anything_else_is_refused_without_telling_the_url(url: str) -> None:
    with pytest.raises(ConfigError) as caught:
        open_backend(url)
    assert caught.value.details == {"field": "url"}
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("env", ["", "Prod", "a.b", "a{b}", "x" * 33, "dev\n"])
def test_an_env_has_its_grammar(env: str) -> None:
    with pytest.raises(ConfigError) as caught:
        open_backend("memory://", env=env)
    assert caught.value.details == {"field": "env"}
