"""The real signature and docstring of a name of the installed library. Pure but for the import of the module."""

import importlib
import inspect
import re
import types
import warnings
from collections.abc import Iterator

from examples.helpdesk.knowledge.catalogue import is_offered
from examples.helpdesk.messages import Docs

_MAX_SUMMARY = 300
_MAX_VALUE = 60
_MAX_PARAGRAPHS = 40
#: a docstring of C code may begin with signatures: "range(stop) -> range object"
_SIGNATURE_LINE = re.compile(r"^[\w.]+\(.*\)(\s*-+>.*)?(\s+--)?$")

_FIRST_WORD = re.compile(r"^[\w.]+")


def look_up(name: str) -> Docs:
    """Find `name` and read what the library says about it.

    Raises:
        LookupError: There is no such name in the standard library of this Python.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        thing = _find(name)
        doc = inspect.getdoc(thing) or ""  # typing.re warns whenever anything of it is looked at
    kind = _kind(thing)
    if kind == "value":
        return Docs(name, kind, "", f"{name} is {_shortened(repr(thing))}, of type {type(thing).__name__}.")
    lines = doc.strip().splitlines()
    written = []
    while lines and _SIGNATURE_LINE.match(lines[0]):
        written.append(lines.pop(0))
    paragraphs = list(_paragraphs("\n".join(lines)))
    summary = paragraphs.pop(0) if paragraphs else f"{name} has no docstring."
    signature = _signature(name, thing) or (_FIRST_WORD.sub(name, written[0]).removesuffix(" --") if written else "")
    return Docs(name, kind, signature, _shortened(summary, _MAX_SUMMARY), tuple(paragraphs[:_MAX_PARAGRAPHS]))


def _find(name: str) -> object:
    """The object itself: attribute by attribute from a builtin or a module, the shortest that leads there."""
    parts = name.split(".")
    if all(parts):
        for length in range(len(parts) + 1):
            module = ".".join(parts[:length]) or "builtins"
            if not is_offered(module):
                continue
            try:
                thing: object = importlib.import_module(module)
                for part in parts[length:]:
                    thing = _attribute(thing, part)
            except (ImportError, AttributeError):
                continue
            return thing
    raise LookupError(f"there is no {name!r} in the standard library of this Python")


def _attribute(thing: object, name: str) -> object:
    try:
        return getattr(thing, name)
    except AttributeError:  # some properties refuse to be seen on their class
        return inspect.getattr_static(thing, name)


def _kind(thing: object) -> str:
    if isinstance(thing, types.ModuleType):
        return "module"
    if isinstance(thing, type):
        return "class"
    described = isinstance(thing, property) or inspect.isdatadescriptor(thing)
    return "attribute" if described else "function" if callable(thing) else "value"


def _signature(name: str, thing: object) -> str:
    if not callable(thing):
        return ""
    try:
        return f"{name}{inspect.signature(thing)}"
    except (ValueError, TypeError, AttributeError):  # written in C, without a signature that Python can read
        return ""


def _paragraphs(text: str) -> Iterator[str]:
    """Prose with its line breaks removed; examples keep theirs."""
    for block in re.split(r"\n\s*\n", text):
        lines = block.strip("\n").splitlines()
        if not "".join(lines).strip():
            continue
        example = any(line.lstrip().startswith(">>>") for line in lines)
        yield "\n".join(lines) if example else " ".join(line.strip() for line in lines)


def _shortened(text: str, most: int = _MAX_VALUE) -> str:
    return text if len(text) <= most else f"{text[: most - 3].rstrip()}..."
