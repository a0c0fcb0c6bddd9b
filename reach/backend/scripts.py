"""The Lua files: loaded from the package, put together, their headers checked, run by content hash.

A step file is `lua/<step>.lua`. Its first line is `#!lua` (with flags), then one line that says what it does, then the header: lines
`-- KEYS name type what`, `-- ARGV name type what` (`name*`: repeated), `-- RETURNS ...`, `-- REPEAT ...` in this order. A line
`-- INCLUDE <part>` stands for the file `lua/parts/<part>.lua`.
"""

import hashlib
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Literal

from reach.errors import ConfigError

MAX_LINES = 80
FLAGS = frozenset({"allow-oom", "no-writes", "allow-stale", "no-cluster", "allow-cross-slot-keys"})
TYPES = frozenset({"key", "integer", "0|1", "text", "bytes", "json", "msgpack"})

_FIRST = re.compile(r"#!lua(?: flags=([a-z-]+(?:,[a-z-]+)*))?")
_HEADER = re.compile(r"-- (KEYS|ARGV|RETURNS|REPEAT) (.+)")
_PARAMETER = re.compile(r"([a-z][a-z0-9_]*)(\*?) (\S+) (\S.*)")
_INCLUDE = re.compile(r"-- INCLUDE ([a-z][a-z0-9_]*)")
_ORDER = ("KEYS", "ARGV", "RETURNS", "REPEAT")

Read = Callable[[str], str]


@dataclass(frozen=True, slots=True)
class Argument:
    """One KEYS or ARGV line. `repeated`: as many as an earlier argument says."""

    name: str
    type: str
    repeated: bool
    what: str


@dataclass(frozen=True, slots=True)
class Script:
    """One step, put together. `sha` is the SHA-1 of `text`: the name by which Redis knows it."""

    name: str
    what: str
    text: str
    sha: str
    flags: frozenset[str]
    keys: tuple[Argument, ...]
    argv: tuple[Argument, ...]
    returns: str
    again: str


def parse(name: str, read: Read) -> Script:
    """Put a step together and check its header.

    Args:
        name: The step (`route`).
        read: Gives the text of a file by its path below `lua/` (`route.lua`, `parts/record.lua`).

    Raises:
        ConfigError: A header, an INCLUDE or a length is wrong; `details["problems"]` lists all of it.
    """
    source = read(f"{name}.lua")
    problems = [*_length_problems(f"{name}.lua", source)]
    lines = source.splitlines()
    first = _FIRST.fullmatch(lines[0]) if lines else None
    if first is None:
        problems.append(f"{name}.lua: the first line is not `#!lua` or `#!lua flags=...`")
    flags = frozenset((first[1] or "").split(",")) - {""} if first else frozenset[str]()
    problems += [f"{name}.lua: unknown flag {flag}" for flag in sorted(flags - FLAGS)]
    what = lines[1][3:].strip() if len(lines) > 1 and lines[1].startswith("-- ") and not _HEADER.match(lines[1]) else ""
    if not what:
        problems.append(f"{name}.lua: the second line does not say what the step does")
    header: dict[str, list[str]] = {kind: [] for kind in _ORDER}
    problems += [f"{name}.lua: {problem}" for problem in _read_header(lines, header)]
    arguments = {kind: [_argument(name, kind, rest, problems) for rest in header[kind]] for kind in ("KEYS", "ARGV")}
    text = "\n".join(_composed(name, lines, read, problems)) + "\n"
    if problems:
        raise ConfigError(problems[0], details={"problems": problems})
    return Script(
        name=name,
        what=what,
        text=text,
        # Redis names a script by its SHA-1; nothing is protected by it.
        sha=hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest(),
        flags=flags,
        keys=tuple(found for found in arguments["KEYS"] if found),
        argv=tuple(found for found in arguments["ARGV"] if found),
        returns=" ".join(header["RETURNS"]),
        again=" ".join(header["REPEAT"]),
    )


def _length_problems(path: str, text: str) -> Iterator[str]:
    length = len(text.splitlines())
    if length > MAX_LINES:
        yield f"{path}: {length} lines, more than {MAX_LINES}"


def _read_header(lines: list[str], header: dict[str, list[str]]) -> Iterator[str]:
    at = 0
    for line in lines:
        found = _HEADER.fullmatch(line)
        if found is None:
            continue
        place = _ORDER.index(found[1])
        if place < at:
            yield f"{found[1]} comes after {_ORDER[at]}"
        at = max(at, place)
        header[found[1]].append(found[2])
    for kind in ("KEYS", "RETURNS", "REPEAT"):
        if not header[kind]:
            yield f"no {kind} line"


def _argument(name: str, kind: str, rest: str, problems: list[str]) -> Argument | None:
    found = _PARAMETER.fullmatch(rest)
    if found is None:
        problems.append(f"{name}.lua: `-- {kind} {rest}` is not `-- {kind} name type what`")
        return None
    if found[3] not in TYPES or (kind == "KEYS") != (found[3] == "key"):
        problems.append(f"{name}.lua: {kind} {found[1]} has the type {found[3]}")
    return Argument(found[1], found[3], bool(found[2]), found[4])


def _composed(name: str, lines: list[str], read: Read, problems: list[str]) -> Iterator[str]:
    seen: set[str] = set()
    for line in lines:
        found = _INCLUDE.fullmatch(line)
        if found is None:
            yield line
            continue
        part = found[1]
        if part in seen:
            problems.append(f"{name}.lua: includes {part} twice")
        seen.add(part)
        try:
            text = read(f"parts/{part}.lua")
        except FileNotFoundError:
            problems.append(f"{name}.lua: includes {part}, which is not there")
            continue
        problems += _length_problems(f"parts/{part}.lua", text)
        yield from text.splitlines()


def _packaged(path: str) -> str:
    place = files("reach.backend") / "lua"
    for step in path.split("/"):
        place = place / step
    return place.read_text(encoding="utf-8")


@cache
def script(name: str) -> Script:
    """A step of the package by its name. Raises ConfigError when it is broken, FileNotFoundError when there is none."""
    return parse(name, _packaged)


def composed(name: str) -> str:
    """The whole text of a step, as Redis gets it: for agents without the SDK, which load it themselves."""
    return script(name).text


def names() -> tuple[str, ...]:
    """The names of all steps of the package, in order."""
    found = (files("reach.backend") / "lua").iterdir()
    return tuple(sorted(entry.name[:-4] for entry in found if entry.name.endswith(".lua")))


def all_scripts() -> Mapping[str, Script]:
    """Every step of the package. Raises ConfigError when one is broken."""
    return {name: script(name) for name in names()}


Sent = Literal["EVALSHA", "EVAL"]


def command(step: Script, verb: Sent, key: str, argv: tuple[object, ...]) -> list[object]:
    """The command that runs a step on its one key: by hash, or (after NOSCRIPT) by its text, which also loads it."""
    return [verb, step.sha if verb == "EVALSHA" else step.text, 1, key, *argv]
