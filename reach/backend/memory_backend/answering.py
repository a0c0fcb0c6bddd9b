"""The answer of an agent as it is kept: what its maker left out is filled in, by a scan over its members. Its output is not decoded."""

import json
import re

from reach.backend.memory_backend.closing import marked, quoted, with_member
from reach.backend.steps import Answer
from reach.envelope.ledger import Leg
from reach.errors import BackendError

_DEFAULT = {"success": "ok", "failed": "handler.rejected", "retryable": "handler.error"}
_NULLS = (
    "output",
    "error_message",
    "schema",
    "processing_host",
    "confidence",
    "partial",
    "cost",
    "via",
    "retry_after_ms",
)
_REST = dict.fromkeys(_NULLS, "null") | {"partial": "false"}
_OURS = frozenset({"msg_id", "task_id", "correlation_id", "version", "durability", "leg", "round", "details", "stored"})
_OURS |= {"target_agent", "target_instance", "attempts", "retry_count", "duration_ms", "queue_ms", "finished_at"}
_SPACE = "[ \t\r\n]*"
_OPENING = re.compile(f"{_SPACE}{{{_SPACE}")
_COLON = re.compile(f"{_SPACE}:{_SPACE}")
_COMMA = re.compile(f"{_SPACE},{_SPACE}")
_END = re.compile(f"{_SPACE}}}{_SPACE}\\Z")
_REST_IS_SPACE = re.compile(f"{_SPACE}\\Z")
_STRING = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL)
_STRUCTURE = re.compile(_STRING.pattern + r'|[{}\[\]"]', re.DOTALL)
_SCALAR = re.compile(r"-?[0-9][0-9.eE+-]*|(?:null|true|false)(?![a-z])")
_CLOSER = {"{": "}", "[": "]"}
_PLAIN_CODE = re.compile(r"[A-Za-z0-9_.-]+")
# How a core ends that is written as we do it, with short and plain texts: with its beginning right too, nothing is missing in it.
_TEXT, _NUMBER = r'"?[^"{}\[\]]*"?', "[A-Za-z0-9.+-]*"
_TAIL = re.compile(
    f',"error_message":{_TEXT},"schema":{_TEXT},"processing_host":{_TEXT},"confidence":({_NUMBER}),"partial":([A-Za-z]*),'
    f'"cost":{_NUMBER},"via":{_TEXT},"retry_after_ms":{_NUMBER}}}\\Z'
)


def answered(answer: Answer) -> Answer:
    """The whole answer. A code that is empty, or null in the core, is the one that the status has by default.

    Raises:
        BackendError: core and details do not fit each other or the answer's status and code.
    """
    status, code, core = answer.status, answer.code, answer.core
    if status not in _DEFAULT:
        raise _wrong("status must be success, failed or retryable")
    if not _is_object(answer.details):
        raise _wrong("details must be a JSON object")
    if _is_canonical(status, code, core):
        return answer
    found = _members(core)
    if found is None:
        raise _wrong("core must be a JSON object with each member once, and none that the script writes")
    if "status" in found and _said(core, found["status"]) != status:
        raise _wrong("core has another status")
    told = _said(core, found["code"]) if "code" in found else ""
    if not isinstance(told, str | None) or (told and code and told != code):
        raise _wrong("core has another code, or none that is text")
    code = code or told or _DEFAULT[status]
    if "code" in found and not told:
        start, end = found["code"]
        core = core[:start] + quoted(code) + core[end:]
    whole = {"status": f'"{status}"', "code": quoted(code), **_REST}
    missing = [f'"{name}":{value}' for name, value in whole.items() if name not in found]
    if missing:
        core = with_member(core, ",".join(missing))
    return Answer(status, code, core, answer.details)


def weighed(answer: Answer, wanted: float) -> tuple[Answer, float]:
    """A success with partial set where it is less sure than wanted, and how sure it is: 1 where it does not say; -1 for no success."""
    if answer.status != "success":
        return answer, -1.0
    found = _places(answer) if wanted > 0 else {}
    said = _said(answer.core, found["confidence"]) if "confidence" in found else None
    sure = max(said, 0.0) if isinstance(said, float) else 1.0
    if sure >= wanted:
        return answer, sure
    start, end = found["partial"]
    return Answer(answer.status, answer.code, answer.core[:start] + "true" + answer.core[end:], answer.details), sure


def led_by(leg: Leg, answer: Answer) -> Answer:
    """The answer that says how the leg came to its agent; what it says of that itself stands."""
    answer = marked(leg, answer)
    at = (_members(answer.core) or {}).get("via") if leg.via else None
    if at is None or answer.core[at[0] : at[1]] != "null":
        return answer
    core = answer.core[: at[0]] + quoted(leg.via) + answer.core[at[1] :]
    return Answer(answer.status, answer.code, core, answer.details)


def _wrong(why: str) -> BackendError:
    return BackendError(f"REACH_RECEIPT {why}")


def _is_canonical(status: str, code: str, core: str) -> bool:
    start = f'{{"status":"{status}","code":"{code}","output":'
    return bool(_PLAIN_CODE.fullmatch(code) and core.startswith(start) and _TAIL.search(_tail(core)))


def _tail(core: str) -> str:
    """Its last 512 bytes, as a script counts them."""
    return core[-512:].encode(errors="surrogatepass")[-512:].decode(errors="replace")


def _places(answer: Answer) -> dict[str, tuple[int, int]]:
    """Where confidence and partial stand; empty for what is no object."""
    core, tail = answer.core, _tail(answer.core)
    told = _TAIL.search(tail) if _is_canonical(answer.status, answer.code, core) else None
    if told is None:
        return _members(core) or {}
    before = len(core) - len(tail)
    spans = {"confidence": told.span(1), "partial": told.span(2)}
    return {name: (before + start, before + end) for name, (start, end) in spans.items()}


def is_value(text: str) -> bool:
    """Whether it is one JSON value, as far as its ends and its brackets show it."""
    start = len(text) - len(text.lstrip(" \t\r\n"))
    end = _value_end(text, start) if start < len(text) else None
    return end is not None and _REST_IS_SPACE.match(text, end) is not None


def _is_object(text: str) -> bool:
    start = len(text) - len(text.lstrip(" \t\r\n"))
    end = _value_end(text, start) if text.startswith("{", start) else None
    return end is not None and _REST_IS_SPACE.match(text, end) is not None


def _said(text: str, place: tuple[int, int]) -> object:
    """What a short member says; False for a long one, and for what is no JSON. All numbers are floats, however great."""
    start, end = place
    try:
        return json.loads(text[start:end], parse_int=float, parse_constant=_no_json) if end - start <= 1_000 else False
    except ValueError:
        return False


def _no_json(word: str) -> object:
    """Python would read NaN and Infinity."""
    raise ValueError(word)


def _members(text: str) -> dict[str, tuple[int, int]] | None:
    """Name -> where its value stands; None for no object, or names anything twice, in disguise, or not its maker's to say."""
    found: dict[str, tuple[int, int]] = {}
    opening = _OPENING.match(text)
    if opening is not None and _END.match(text, opening.end()):
        return found
    at = opening
    while at is not None:
        key = _STRING.match(text, at.end())
        colon = _COLON.match(text, key.end()) if key is not None else None
        end = _value_end(text, colon.end()) if colon is not None else None
        if key is None or colon is None or end is None:
            return None
        name = key[0][1:-1]
        if name in found or name in _OURS or "\\" in name:
            return None
        found[name] = (colon.end(), end)
        if _END.match(text, end):
            return found
        at = _COMMA.match(text, end)
    return None


def _value_end(text: str, at: int) -> int | None:
    """Where the value that begins at `at` is over; None where none begins, or it has no end."""
    if text.startswith('"', at):
        found = _STRING.match(text, at)
        return found.end() if found is not None else None
    if text[at : at + 1] not in _CLOSER:
        found = _SCALAR.match(text, at)
        return found.end() if found is not None else None
    opened: list[str] = []
    for token in _STRUCTURE.finditer(text, at):
        part = token[0]
        if part in _CLOSER:
            opened.append(_CLOSER[part])
        elif part == '"':
            return None  # a text without an end
        elif not part.startswith('"'):
            if opened.pop() != part:
                return None
            if not opened:
                return token.end()
    return None
