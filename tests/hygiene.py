"""What a test may leave behind: in Redis keys of the table, of their type and with their lifetime, and no work; in this process nothing."""

import os
import re
import stat
import subprocess
import threading
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import redis

from reach.backend.key_faults import fault_of, pattern_of

__all__ = ["children", "descriptors", "fault_of", "look_over", "pattern_of", "walk", "work_left"]

# ---------------------------------------------------------------- in Redis


def look_over(url: str, node: pytest.Item) -> list[str]:
    """What a used server holds and may not. A test excuses itself by a mark: `leaves` (keys), `leaves_work` (groups)."""
    allowed: list[str] = []
    for mark in node.iter_markers("leaves"):
        allowed += mark.args
    faults = walk(url, allowed) + _without_reason(node)
    return faults if any(node.iter_markers("leaves_work")) else faults + work_left(url)


def _without_reason(node: pytest.Item) -> list[str]:
    marks = [*node.iter_markers("leaves"), *node.iter_markers("leaves_work")]
    return [f"{node.nodeid}: {mark.name} does not say why=" for mark in marks if not mark.kwargs.get("why")]


def walk(url: str, allowed: Iterable[str] = ()) -> list[str]:
    """The faults of all keys of a server. `allowed`: regular expressions of names that are the test's own business."""
    own = [re.compile(pattern) for pattern in allowed]
    faults = []
    with redis.Redis.from_url(url) as client:
        names = {raw_key: raw_key.decode(errors="backslashreplace") for raw_key in client.scan_iter(count=1000)}
        looked = {k: key for k, key in names.items() if not any(pattern.fullmatch(key) for pattern in own)}
        kinds = _asked(client, [("TYPE", raw_key) for raw_key in looked])
        lifetimes = _asked(client, [("PTTL", raw_key) for raw_key in looked])
    for key, kind, pttl_ms in zip(looked.values(), kinds, lifetimes, strict=True):
        if kind == b"none" or pttl_ms == -2:
            continue  # it expired between two looks
        fault = fault_of(key, kind.decode(), pttl_ms)
        if fault is not None:
            faults.append(fault)
    return faults


def _asked(client: Any, commands: Iterable[tuple[bytes | str, ...]]) -> list[Any]:
    """The answers to many commands in one round trip."""
    with client.pipeline(transaction=False) as pipe:
        for command in commands:
            pipe.execute_command(*command)
        return list(pipe.execute())


def work_left(url: str) -> list[str]:
    """What is pending to anybody, and who is a consumer still, in every group of a server."""
    faults = []
    with redis.Redis.from_url(url) as client:
        streams = list(client.scan_iter(count=1000, _type="stream"))
        groups = _asked(client, [("XINFO GROUPS", raw_key) for raw_key in streams])
        found = [(raw_key, group["name"]) for raw_key, told in zip(streams, groups, strict=True) for group in told]
        consumers = _asked(client, [("XINFO CONSUMERS", raw_key, name) for raw_key, name in found])
    for (raw_key, raw_name), told in zip(found, consumers, strict=True):
        key, name = (each.decode(errors="backslashreplace") for each in (raw_key, raw_name))
        for consumer in told:
            who = consumer["name"].decode(errors="backslashreplace")
            if consumer["pending"]:
                faults.append(f"{key}: {consumer['pending']} entries are pending to {who} in {name}")
            else:
                faults.append(f"{key}: {who} is a consumer of {name} still")
    return faults


# ---------------------------------------------------------------- in this process


class Descriptor(NamedTuple):
    """An open file, pipe or socket: another one under the same number is another one."""

    number: int
    kind: int
    device: int
    inode: int

    def __str__(self) -> str:
        return f"{self.number} ({_KINDS.get(self.kind, 'something')}{self._target()})"

    def _target(self) -> str:
        try:
            return f" {os.readlink(f'/proc/self/fd/{self.number}')}"
        except OSError:
            return ""


_KINDS = {stat.S_IFSOCK: "socket", stat.S_IFIFO: "pipe", stat.S_IFREG: "file", stat.S_IFCHR: "device", 0: "anonymous"}


def descriptors() -> set[Descriptor]:
    """What this process has open."""
    found = set()
    for name in os.listdir("/dev/fd"):
        try:
            status = os.fstat(int(name))
        except OSError:
            continue  # that of the listing itself
        found.add(Descriptor(int(name), stat.S_IFMT(status.st_mode), status.st_dev, status.st_ino))
    return found


def children() -> dict[int, str]:
    """The child processes of this one, also those that have ended and were not waited for: pid -> command line."""
    tasks = Path("/proc/self/task")
    pids = [pid for task in tasks.iterdir() for pid in _children_of(task)] if tasks.exists() else _children_by_ps()
    return {pid: _command(pid) for pid in pids}


def _children_of(task: Path) -> list[int]:
    try:
        return [int(pid) for pid in (task / "children").read_text().split()]
    except OSError:
        return []  # a thread that has just ended


def _children_by_ps() -> list[int]:
    with subprocess.Popen(["ps", "-A", "-o", "ppid=,pid="], stdout=subprocess.PIPE, text=True) as ps:
        rows = [line.split() for line in ps.communicate()[0].splitlines()]
    return [int(pid) for parent, pid in rows if int(parent) == os.getpid() and int(pid) != ps.pid]


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")[:120]
    except OSError:
        return "?"


class ProcessState(NamedTuple):
    """What a process has at a moment. Take one with `now`, and ask `left_since` for what has come since then."""

    threads: set[threading.Thread]
    descriptors: set[Descriptor]
    children: dict[int, str]

    @classmethod
    def now(cls) -> "ProcessState":
        """As it is now."""
        return cls(set(threading.enumerate()), descriptors(), children())

    def left_since(self, others: tuple[str, ...]) -> list[str]:
        """What there is now and was not then. `others`: beginnings of the names of threads that somebody else ends."""
        now = ProcessState.now()
        threads = [one for one in now.threads - self.threads if not one.name.startswith(others)]
        return [
            *(f"the thread {one.name} outlived the test" for one in threads),
            *(
                f"the child {pid} ({what}) outlived the test"
                for pid, what in now.children.items()
                if pid not in self.children
            ),
            *(f"the descriptor {one} outlived the test" for one in sorted(now.descriptors - self.descriptors)),
        ]
