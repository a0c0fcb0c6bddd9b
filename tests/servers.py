"""Which real servers the tests run on, and how they get one.

REACH_TEST_SERVERS=redis,valkey chooses; without it every engine that is found is used. One that was asked for and is not there is a
failure and never a skip: a suite that quietly left Redis out proves nothing.

REACH_TEST_TURN=<number> runs a test that is not about the steps on one of them only, with the next number on the next one.
"""

import os
import shutil
import zlib
from collections.abc import Callable, Mapping, Sequence

from reach.backend.private_server import PrivateServer, find_binary, packaged_binary
from reach.errors import ConfigError

#: DEBUG is needed to make a server slow or to crash it; loopback connections only
TEST_OPTIONS = ("--enable-debug-command", "local")

#: Starts a server of the test's own engine, stopped at the end of the test: for tests that kill, restart or configure it.
StartServer = Callable[..., PrivateServer]


def binaries() -> dict[str, str]:
    """The engines of this machine: "redis" and "valkey", each with a program that is new enough."""
    found: dict[str, str] = {}
    for candidate in (shutil.which("redis-server"), shutil.which("valkey-server"), packaged_binary()):
        if candidate is None:
            continue
        try:
            binary = find_binary(candidate)
        except ConfigError:
            continue  # too old: as good as absent
        found.setdefault(binary.engine, binary.path)
    return found


def selected(environ: Mapping[str, str] = os.environ) -> list[str]:
    """The engines that this run tests, in order. Raises ConfigError if one that was asked for, or any at all, is missing."""
    found = binaries()
    asked = [name.strip() for name in environ.get("REACH_TEST_SERVERS", "").split(",") if name.strip()]
    missing = [name for name in asked if name not in found]
    if missing:
        raise ConfigError(
            f"REACH_TEST_SERVERS asks for {', '.join(missing)}; this machine has {', '.join(sorted(found)) or 'none'}"
        )
    if not found:
        find_binary()  # raises the error that has the install command
    return asked or sorted(found)


def has_its_turn(test: str, engine: str, engines: Sequence[str], environ: Mapping[str, str] = os.environ) -> bool:
    """Whether a test runs on this engine in this run: on each without turns, on one with them. `test`: its name, without its cases."""
    turn = environ.get("REACH_TEST_TURN", "")
    return not turn or engines[(zlib.crc32(test.encode()) + int(turn)) % len(engines)] == engine
