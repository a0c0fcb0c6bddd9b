"""Looking at JSON bytes without believing them: depth, duplicate keys, where a member stands.

msgspec alone accepts duplicate keys, bad UTF-8 inside `Raw` and any depth up to its own RecursionError, so nothing here
relies on it for these. Every function takes time linear in the length, and the loops per token run in C: a router
meets these bytes before it knows who sent them.
"""

import json
import re
from typing import NamedTuple

import msgspec

MAX_DEPTH = 64
#: No object that is read member by member needs more: 4 KiB of headers have at most 2,113 different names.
MAX_MEMBERS = 2_200

_KEYS = re.compile(rb'"([a-z_]+)"[ \t\n\r]*:').findall
_OPENING = re.compile(r"[ \t\n\r]*\{?[ \t\n\r]*")
_COLON = re.compile(r"[ \t\n\r]*:?[ \t\n\r]*")
_COMMA = re.compile(r"[ \t\n\r]*,?[ \t\n\r]*")
# A backslash that is escaped itself, a whole pair, or one half alone: only the last is a group.
_HALF = re.compile(
    rb"\\\\|\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(\\u[dD][89a-fA-F][0-9a-fA-F]{2})"
)
_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F][0-9a-fA-F]{2}")
_BRACKETS = bytes.maketrans(b"{}", b"[]")
_NO_BRACKETS = bytes(byte for byte in range(256) if byte not in b"[]{}")


class TooManyMembers(Exception):
    """An object has more members than anything needs; `str()` says so in one sentence."""


class Member(NamedTuple):
    """One member of an object, as positions in the text: `text[start:value_start]` is its key and colon."""

    key: str
    start: int
    value_start: int
    end: int


# Values are only skipped: nothing is built of them (an int of 5,000 digits would raise in Python). `len` stands for nothing: it is C.
_skip = json.JSONDecoder(parse_int=len, parse_float=len, parse_constant=len, object_pairs_hook=len).raw_decode


def is_utf8(data: bytes) -> bool:
    """Whether the bytes are valid UTF-8."""
    if not data.isascii():
        try:
            data.decode()
        except UnicodeDecodeError:
            return False
    return True


def skeleton(data: bytes) -> bytes:
    """The brackets that stand outside strings, `{}` written as `[]`.

    Right for every beginning of `data` that is valid JSON: what follows the first fault is read by nobody.
    """
    if b"\\" in data:
        # Pairs first: after `\\\\` is gone, a backslash before a quote is one that escapes it.
        data = data.replace(b"\\\\", b"").replace(b'\\"', b"")
    return b"".join(data.split(b'"')[::2]).translate(_BRACKETS, _NO_BRACKETS)


def too_deep(data: bytes, most: int = MAX_DEPTH) -> bool:
    """Whether brackets nest deeper than `most`, or do not balance (then it is no JSON anyway).

    Every pass takes the innermost pairs away; what is at most 64 deep is gone after 64 passes.
    """
    if data.count(b"{") + data.count(b"[") <= most:
        return False
    brackets = skeleton(data)
    for _ in range(most):
        left = brackets.replace(b"[]", b"")
        if len(left) == len(brackets):
            break
        brackets = left
    return bool(brackets)


def surely_unique(data: bytes, body: bytes) -> bool:
    """Whether no key of the envelope stands there twice, as far as a quick look can tell; False means: look closely.

    For valid JSON that has no unknown fields. All names of the envelope and its parts differ, so each may be there
    once in all. The body is cut out first, its key stays: `"body":` and a whole JSON value stand nowhere but in the
    payload and, as text, in headers, so no key that counts is cut with it.
    """
    if body:
        head = data.replace(b'"body":' + body, b'"body":', 1)
        if len(head) == len(data):
            head = data.replace(b'"body": ' + body, b'"body":', 1)
    else:
        head = data
    if b"\\" in head:
        return False
    keys = _KEYS(head)
    return len(keys) == len(set(keys))


def latin(data: bytes) -> str:
    """The bytes as text of the same length, so that a position in one is a position in the other."""
    return data.decode("latin-1")


def members(text: str, at: int = 0) -> list[Member]:
    """The members of the object that starts at `at`, in order, duplicates included.

    `text` is valid JSON by :func:`latin`, at most 64 deep. Keys come with their escapes resolved; those that are not
    ASCII come as they stand.

    Raises:
        TooManyMembers: More than MAX_MEMBERS: the loop is Python's, so that junk of a legal size must not keep it busy.
    """
    found: list[Member] = []
    at = _past(_OPENING, text, at)
    while text[at] != "}":
        if len(found) == MAX_MEMBERS:
            raise TooManyMembers(f"an object has more than {MAX_MEMBERS} members")
        start = at
        key, at = _skip(text, at)
        value_start = _past(_COLON, text, at)
        _, at = _skip(text, value_start)
        found.append(Member(key, start, value_start, at))
        at = _past(_COMMA, text, at)
    return found


def is_object(text: str, member: Member) -> bool:
    """Whether the member's value is an object."""
    return text[member.value_start] == "{"


def is_null(text: str, member: Member) -> bool:
    """Whether the member's value is null."""
    return text.startswith("null", member.value_start)


def first_duplicate(found: list[Member]) -> str | None:
    """The first key that stands there again."""
    seen: set[str] = set()
    for member in found:
        if member.key in seen:
            return member.key
        seen.add(member.key)
    return None


def is_json(data: bytes) -> bool:
    """Whether the bytes are one JSON value, lone surrogate escapes allowed. At most 64 deep is taken for granted."""
    try:
        msgspec.json.decode(_without_surrogates(data), type=msgspec.Raw)
    except msgspec.DecodeError:
        return False
    return True


def _without_surrogates(data: bytes) -> bytes:
    r"""The bytes with every `\udXXX` neutralised.

    A lone surrogate is legal JSON (a JavaScript agent that cuts a text inside an emoji writes one) but no text, so
    msgspec refuses it even where it only skips. Inside a body it is carried like everything else.
    """
    if b"\\" not in data:
        return data
    return _SURROGATE.sub(b"..", data.replace(b"\\\\", b".."))


def mended(data: bytes) -> bytes:
    r"""The bytes with every lone surrogate written as `\ufffd`; as long as before, so that positions stay what they were."""
    return _HALF.sub(lambda found: rb"\ufffd" if found[1] else found[0], data) if rb"\u" in data else data


def _past(separator: re.Pattern[str], text: str, at: int) -> int:
    found = separator.match(text, at)
    return at if found is None else found.end()
