"""The one table: what Redis says, as an error of reach."""

import asyncio

import pytest
from redis import exceptions as said
from redis._parsers.base import BaseParser

from reach.backend.connection import Link, reply_code, translated
from reach.errors import (
    BackendDenied,
    BackendError,
    BackendFull,
    BackendUnavailable,
    ConfigError,
    ScriptFailed,
)

UNAVAILABLE = [
    "LOADING Redis is loading the dataset in memory",
    "READONLY You can't write against a read only replica.",
    "MASTERDOWN Link with MASTER is down",
    "CLUSTERDOWN The cluster is down",
    "TRYAGAIN Multiple keys request during rehashing of slot",
    "NOREPLICAS Not enough good replicas to write.",
    "MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk.",
    "BUSY Redis is busy running a script.",
    "UNKILLABLE Sorry the script already executed write commands",
    "UNBLOCKED the stream key no longer exists",
    "MOVED 3999 127.0.0.1:6381",
    "ASK 3999 127.0.0.1:6381",
]


def heard(line: str) -> BaseException:
    """What redis-py makes of an error line."""
    error = BaseParser.parse_error(line)  # type: ignore[no-untyped-call]
    assert isinstance(error, BaseException)
    return error


@pytest.mark.parametrize("line", UNAVAILABLE)
def test_what_passes_is_unavailable_and_retryable(line: str) -> None:
    error = translated(heard(line))
    assert type(error) is BackendUnavailable
    assert (error.code, error.retryable) == ("backend.unavailable", True)
    assert error.details["reply_code"] == line.split(" ", maxsplit=1)[0]


def test_a_full_server_is_full_and_retryable() -> None:
    error = translated(heard("OOM command not allowed when used memory > 'maxmemory'."))
    assert type(error) is BackendFull
    assert error.retryable


@pytest.mark.parametrize(
    "line",
    [
        "NOPERM this user has no permissions to run the 'get' command",
        "NOAUTH Authentication required.",
        "WRONGPASS invalid username-password pair or user is disabled.",
    ],
)
def test_a_refusal_is_denied_and_final(line: str) -> None:
    error = translated(heard(line))
    assert type(error) is BackendDenied
    assert not error.retryable


@pytest.mark.parametrize("code", ["NOGROUP", "WRONGTYPE", "CROSSSLOT"])
def test_a_key_that_is_not_as_it_should_be_is_told_with_its_code(code: str) -> None:
    error = translated(heard(f"{code} something"))
    assert type(error) is BackendError
    assert error.details["reply_code"] == code


def test_an_error_of_a_script_is_told_with_what_it_said() -> None:
    error = translated(heard("REACH_RECEIPT core and details must be JSON objects script: abc, on @user_script:9."))
    assert type(error) is ScriptFailed
    assert "REACH_RECEIPT" in error.details["reply"]
    assert not error.retryable
    assert type(translated(heard("ERR syntax error"))) is ScriptFailed


@pytest.mark.parametrize(
    "error",
    [
        said.ConnectionError("Connection closed by server."),
        said.TimeoutError("Timeout"),
        said.BusyLoadingError("loading"),
        ConnectionResetError(104, "reset"),
        BrokenPipeError(),
        asyncio.IncompleteReadError(b"", 1),
        said.InvalidResponse("Protocol Error"),
        heard("ERR max number of clients reached"),
    ],
)
def test_a_lost_connection_is_unavailable(error: BaseException) -> None:
    assert type(translated(error)) is BackendUnavailable


def test_anything_else_is_no_excuse_to_try_again() -> None:
    error = translated(ValueError("a bug"))
    assert type(error) is BackendError
    assert not error.retryable


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (said.ResponseError("NOGROUP No such key"), "NOGROUP"),
        (said.ResponseError("something in lower case"), ""),
        (said.ConnectionError("Error 111 connecting"), ""),
        (said.NoScriptError("No matching script.", status_code="NOSCRIPT"), "NOSCRIPT"),
    ],
)
def test_the_code_is_the_first_word(error: BaseException, code: str) -> None:
    assert reply_code(error) == code


@pytest.mark.parametrize("url", ["http://localhost", "redis://localhost?socket_timeout=x", "redis+sentinel://a"])
def test_a_url_that_cannot_be_used_is_said(url: str) -> None:
    with pytest.raises(ConfigError):
        Link(url)
