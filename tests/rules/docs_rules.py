"""What the reference pages must say. Each rule takes texts and says what is wrong, as a list; empty is good."""

import ast
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Protocol, cast

from reach.backend.keys import Row

_SETTING = re.compile(r"REACH_[A-Z0-9_]+")


def key_faults(rows: Iterable[Row], page: str) -> list[str]:
    """Every kind of key has a lifetime and a writer, and stands in the page once."""
    faults = []
    for row in rows:
        if not row.lifetime.strip() or not row.writer.strip() or not row.types:
            faults.append(f"{row.pattern}: without lifetime, type or writer")
        if page.count(f"| `{row.pattern}` |") != 1:
            faults.append(f"{row.pattern}: not in docs/keys.md, or twice")
    return faults


def settings_in(sources: Mapping[str, str]) -> set[str]:
    """The environment variables that the code names: string constants like REACH_ENV, but not the error names of scripts."""
    errors = {name for path, text in sources.items() if path.endswith(".lua") for name in _SETTING.findall(text)}
    found: set[str] = set()
    for path, text in sources.items():
        if path.endswith(".py"):
            for node in ast.walk(ast.parse(text, path)):
                if isinstance(node, ast.Constant) and isinstance(node.value, str) and _SETTING.fullmatch(node.value):
                    found.add(node.value)
    return found - errors


def setting_faults(sources: Mapping[str, str], table: Iterable[str], page: str) -> list[str]:
    """Every environment variable that the code names or that is in the table of settings stands in the page, and no other."""
    read = settings_in(sources) | set(table)
    told = set(re.findall(r"`(REACH_[A-Z0-9_]+)`", page))
    faults = [f"{name}: read by the code, not in docs/settings.md" for name in sorted(read - told)]
    return faults + [f"{name}: in docs/settings.md, not read by the code" for name in sorted(told - read)]


#: codes of errors that never travel: they name a fault of this process or of its configuration
LOCAL_FAMILIES = frozenset({"answer", "config", "backend", "policy", "record", "rule", "otlp", "hook", "wait"})
#: what takes a code first
GIVERS = frozenset({"EnvelopeError", "Finish", "Problem", "code_answer", "failed", "refusal", "retryable", "_refusal"})


def code_faults(codes: Iterable[str], sources: Mapping[str, str]) -> list[str]:
    """Every code that is given, by name or to one of GIVERS, has a line of its own in the table, or is a local one.

    A family of the table (`auth.*`) is for codes that others give: who reads the page looks for the code that he was told.
    """
    known = set(codes)
    return [
        f"{path}:{value.lineno}: {value.value!r} is not in the table of codes"
        for path, text in sources.items()
        for value in _codes_given(ast.parse(text, path))
        if value.value not in known and value.value.partition(".")[0] not in LOCAL_FAMILIES
    ]


class _Text(Protocol):
    value: str
    lineno: int


def _codes_given(tree: ast.AST) -> Iterator[_Text]:
    for node in ast.walk(tree):
        match node:
            case ast.keyword(arg="code", value=value) | ast.Assign(targets=[ast.Name(id="default_code")], value=value):
                pass
            case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name), args=[value, *_]) if name in GIVERS:
                pass
            case _:
                continue
        for one in (value.body, value.orelse) if isinstance(value, ast.IfExp) else (value,):
            if isinstance(one, ast.Constant) and isinstance(one.value, str) and "." in one.value:
                yield cast("_Text", one)


def docstring_faults(name: str, thing: object) -> list[str]:
    """A public class or function says what the caller gets, and so do its public methods."""
    faults = [] if (getattr(thing, "__doc__", None) or "").strip() else [f"{name}: has no docstring"]
    if isinstance(thing, type):
        for member, value in vars(thing).items():
            function = value.fget if isinstance(value, property) else getattr(value, "__func__", value)
            if not member.startswith("_") and callable(function) and not isinstance(function, type):
                faults += (
                    [] if (getattr(function, "__doc__", None) or "").strip() else [f"{name}.{member}: has no docstring"]
                )
    return faults
