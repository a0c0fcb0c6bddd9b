"""The grammar of `target.pattern`, and what is said to somebody who misses it: what is wrong, and what would be right. Pure."""

import difflib

from reach import ids

KINDS = ("agent_id", "capability", "group", "intent")
MAX_PATTERN = 4096


def pattern_problem(text: str) -> str | None:
    """Why this is no pattern; None: it is one."""
    kind, colon, rest = text.partition(":")
    if len(text) > MAX_PATTERN:
        return f"{len(text)} characters, at most {MAX_PATTERN}"
    if kind == "capability":
        return None if all(map(_is_capability, rest.split("+"))) else _capability_problem(rest)
    if kind in ("agent_id", "group"):
        return None if ids.is_name(rest) else _id_problem(kind, rest)
    if kind == "intent":
        return None if rest.strip() else "nothing after intent: say what is wanted, as intent:give me my money back"
    return _kind_problem(kind, rest) if colon else _name_problem(text)


def _is_capability(term: str) -> bool:
    return ids.is_token(term.removesuffix(".*"))


def _id_problem(kind: str, rest: str) -> str:
    allowed = "letters, digits, '.', '_', '-', at most 128, the first a letter or digit"
    return f"{rest[:64]!r} is no name after {kind}: {allowed}"


def _capability_problem(rest: str) -> str:
    lower = rest.lower()
    if lower != rest and all(map(_is_capability, lower.split("+"))):
        return f"{rest[:64]!r}: capabilities are lower case, say capability:{lower[:64]}"
    bad = next((term for term in rest.split("+") if not _is_capability(term)), rest)
    text = f"{bad[:64]!r} is no capability: lower-case tokens joined by dots are, such as refund or billing.refund"
    return f"{text}; several are joined by +, and billing.* is anything below billing"


def _kind_problem(kind: str, rest: str) -> str:
    near = difflib.get_close_matches(kind[:32].lower(), KINDS, 1)
    meant = f", {near[0]}:{rest[:64]} may be meant" if near else ""
    return f"{kind[:32]!r} is no kind of pattern{meant}: there is agent_id:, capability:, group: and intent:"


def _name_problem(text: str) -> str:
    """A bare name: what it may mean."""
    forms = [f"capability:{text}"] if _is_capability(text) else []
    forms += [f"agent_id:{text}", f"group:{text}"] if ids.is_name(text) else []
    if not forms:
        return f"{text[:64]!r} is no pattern: say agent_id:, capability:, group: or intent: and who or what is meant"
    return f"{text[:64]!r} does not say what it is: {' or '.join(forms)}"
