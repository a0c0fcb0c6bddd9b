"""Rules that need no parser. Each takes a path and a text and says what is wrong, as a list; empty is good."""

import re
from pathlib import PurePosixPath

MAX_LINES = 400
MAX_LUA_LINES = 80

#: names that say nothing about what is inside
EMPTY_NAMES = frozenset(
    {"util", "utils", "core", "common", "helper", "helpers", "misc", "base", "model", "models", "stuff"}
)
#: the one place where the word says what is inside: a model of the ledger, to be explored state by state
MODEL = "tests/model/"

# Put together here, so that this file does not break its own rule.
_PLACES = [
    re.compile(r"(?<![\w.-])/work" + "/"),
    re.compile(r"(?<!\w)shared" + "/"),
    re.compile(r"\." + r"library\b"),
    re.compile("pypi" + r"\.org|python" + r"hosted\.org|npmjs" + r"\.(?:com|org)|deb\.debian" + r"\.org"),
]
_WORDS = [
    re.compile(r"\b(?:TO" + r"DO|FIX" + r"ME|XX" + r"X|HA" + r"CK)\b"),
    re.compile("exactly" + r"[-\s]once(?! effects: nobody has them)", re.IGNORECASE),
]
_KINDS = {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}


def size_faults(path: str, text: str) -> list[str]:
    """No source file over 400 lines, no Lua file over 80."""
    most = MAX_LUA_LINES if path.endswith(".lua") else MAX_LINES
    lines = len(text.splitlines())
    return [f"{path}: {lines} lines, at most {most}"] if lines > most else []


def name_faults(path: str) -> list[str]:
    """No folder or file whose name says nothing."""
    parts = PurePosixPath(path.removeprefix(MODEL)).parts
    stems = [*parts[:-1], parts[-1].split(".")[0]]
    return [f"{path}: {stem!r} says nothing about what is inside" for stem in stems if stem in EMPTY_NAMES]


def word_faults(path: str, text: str) -> list[str]:
    """No path or host of the place where it was written, no open ends, no promise that nobody can keep."""
    patterns = _WORDS if path == "uv.lock" else [*_PLACES, *_WORDS]
    faults = []
    for number, line in enumerate(text.splitlines(), 1):
        faults += [f"{path}:{number}: {found[0]!r}" for pattern in patterns if (found := pattern.search(line))]
    return faults


def lua_faults(path: str, text: str) -> list[str]:
    """A step is a script with a full header: it declares keys, arguments, what it returns and what a second run does."""
    lines = text.splitlines()
    faults = []
    if not lines or not lines[0].startswith("#!lua"):
        faults.append(f"{path}: does not start with #!lua")
    header = [line for line in lines[1:] if line.startswith("--")]
    faults += [
        f"{path}: its header has no line `-- {word} ...`"
        for word in ("KEYS", "RETURNS", "REPEAT")
        if not any(re.match(rf"--\s+{word}\s+\S", line) for line in header)
    ]
    code = [line for line in lines if not line.startswith("--")]
    if "ARGV" in "\n".join(code) and not any(re.match(r"--\s+ARGV\s+\S", line) for line in header):
        faults.append(f"{path}: uses ARGV, and its header has no line `-- ARGV ...`")
    return faults


def lua_error_faults(path: str, text: str) -> list[str]:
    """An error of a script can be told from one of Redis: it starts with REACH_."""
    return [
        f"{path}:{number}: an error must start with REACH_"
        for number, line in enumerate(text.splitlines(), 1)
        if re.search(r"error_reply\(\s*['\"](?!REACH_)", line)
    ]


def changelog_faults(text: str, version: str) -> list[str]:
    """Keep a Changelog: a title, an Unreleased section or one for the version, and known kinds of changes only."""
    faults = []
    if not text.startswith("# Changelog\n"):
        faults.append("CHANGELOG.md: does not start with `# Changelog`")
    heads = re.findall(r"^## \[([^\]]+)\]", text, re.MULTILINE)
    if "Unreleased" not in heads and version not in heads:
        faults.append(f"CHANGELOG.md: neither [Unreleased] nor [{version}]")
    kinds = re.findall(r"^### (.+)$", text, re.MULTILINE)
    faults += [f"CHANGELOG.md: {kind!r} is no kind of change" for kind in kinds if kind not in _KINDS]
    return faults
