"""Questions that name a module or a type and describe something in it: "in itertools, what gives me ...", "the str method that ..."."""

import re
from collections.abc import Collection

import msgspec

_KIND = r"(?P<kind>function|method|class|decorator|call|tool|recipe|thing|one|exception|attribute|constant|dictionary|helper|type)s?"
_NAMED = r"`?(?P<name>[A-Za-z_][\w.]*?)`?"
_PATTERNS = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        rf"\b(?:in|from|of|inside|within)\s+(?:the\s+)?{_NAMED}(?:\s+module|\s+package)?\s*(?=[,?;]|$|\s(?:what|which|how|is|do|does|there|that|where|to|for|i)\b)",
        rf"^\s*(?:in|from|with)\s+(?:the\s+)?{_NAMED}(?:\s+module|\s+package)?\s*[,:]",
        rf"\b{_NAMED}\s+{_KIND}\b",
        rf"^\s*(?:the\s+)?{_NAMED}(?:\s+module|\s+package)?\s*(?:[:,]|\s-)",
        rf"^\s*{_NAMED}\s+has\s+an?\b",
        rf"\b(?:the\s+)?{_NAMED}\s+(?:module|package)\b",
    )
)
_TYPES = {
    "builtin": "builtins", "builtins": "builtins", "built-in": "builtins", "string": "str", "str": "str", "strings": "str",
    "list": "list", "lists": "list", "dict": "dict", "dictionary": "dict", "dicts": "dict", "set": "set", "sets": "set", "tuple": "tuple",
    "bytes": "bytes", "int": "int", "integer": "int", "float": "float", "path": "pathlib.Path",
}  # fmt: skip
#: what a word of the question says about the kind of what is looked for
_KINDS = {"method": "method", "class": "class", "function": "function", "dictionary": "class", "attribute": "attribute"}


class Scope(msgspec.Struct, frozen=True):
    """`name` in lower case: a module, "builtins", or a type. `kind`: what is looked for in it, "" where it is not said."""

    name: str
    kind: str
    word: str = ""  # as it stands in the question, in lower case


def scope_of(question: str, modules: Collection[str]) -> Scope | None:
    """The module or type that the question restricts itself to.

    Args:
        question: As it was typed.
        modules: The names of all modules, in lower case.
    """
    said = re.search(rf"\b{_KIND}\b", question, re.IGNORECASE)
    for pattern in _PATTERNS:
        for match in pattern.finditer(question):
            name = match["name"].lower().strip(".")
            kind = (match.groupdict().get("kind") or (said["kind"] if said else "")).lower()
            if name == "string" and "module" in question.lower():
                return Scope("string", "", name)
            if name in _TYPES and (kind == "method" or _TYPES[name] == "builtins"):
                return Scope(_TYPES[name].lower(), _KINDS.get(kind, ""), name)
            if name in modules:
                return Scope(name, _KINDS.get(kind, ""), name)
    if re.search(r"\b(?:a|the|which|what) built-?in\b", question, re.IGNORECASE):
        return Scope("builtins", "")
    return None
