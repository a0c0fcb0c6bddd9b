"""Patterns of JSON Schemas: whether one is a regular expression that whoever validates can use, and in linear time. Pure.

What an engine without backtracking cannot do (look-around, references to groups) is refused as the schema is stored, not only where
somebody validates by it. So is what ECMAScript and that engine read as two things, such as a [ inside [ ]. What only a compiler sees (how
large it becomes, a Unicode property that there is not) is told by whoever compiles it.
"""

import re
import string

#: With its repetitions written out a pattern matches at most so many characters: a compiler that has a bound takes no more.
MAX_STEPS = 8_000
MAX_GROUPS_DEEP = 50

_TIMES = re.compile(r"\{(\d{1,9})(?:,(\d{1,9})?)?\}")
_NAME = re.compile(r"\?P?<([A-Za-z_][A-Za-z0-9_]*)>")
_FLAGS = re.compile(r"\?([ims]*)(?:-([ims]+))?([:)])")
_HEX = re.compile(r"x([0-9A-Fa-f]{2})|u([0-9A-Fa-f]{4})|[xu]\{([0-9A-Fa-f]{1,6})\}")
_PROPERTY = re.compile(r"[pP](?:[LMNPSZC]|\{[A-Za-z_]+(?:=[A-Za-z_]+)?\})")
_CONTROL = re.compile(r"c[A-Za-z]")
_SIGNS = {"t": "\t", "n": "\n", "r": "\r", "f": "\f", "v": "\v"}
#: What may stand behind a \\ for itself; \\< and \\> are the edges of words to the engine.
_MARKS = frozenset(string.punctuation + " ") - frozenset("<>")
_LOOKS = ("?=", "?!", "?<=", "?<!")
#: Inside [ ] the engine takes these for operations between sets.
_BETWEEN_SETS = ("[", "&&", "--", "~~")
_SEVERAL = ""  # in the place of one character: a class of them, which begins and ends no range


class _Broken(ValueError):
    """It is no pattern of ours; the text says why."""


def regex_problem(pattern: str) -> str:
    """What is wrong with a pattern, the first thing from the left; "" = nothing."""
    try:
        _Reading(pattern).whole()
    except _Broken as error:
        return str(error)
    return ""


class _Reading:
    """One reading of a pattern, from left to right. All that is wrong comes as _Broken."""

    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        self._at = 0
        self._names: set[str] = set()

    def whole(self) -> None:
        self._alternatives(0)
        if self._at < len(self._pattern):
            raise self._broken("a ) that closes nothing")

    # ---------------------------------------------------------------- the text
    def _broken(self, what: str) -> _Broken:
        return _Broken(f"{what} (character {self._at + 1})")

    def _is(self, *texts: str) -> bool:
        return self._pattern.startswith(texts, self._at)

    def _passed(self, text: str) -> bool:
        if not self._is(text):
            return False
        self._at += len(text)
        return True

    def _took(self, form: re.Pattern[str]) -> re.Match[str] | None:
        found = form.match(self._pattern, self._at)
        if found is not None:
            self._at = found.end()
        return found

    @property
    def _ended(self) -> bool:
        return self._at >= len(self._pattern)

    # ---------------------------------------------------------------- its parts
    def _alternatives(self, depth: int) -> int:
        """How many characters they match at most, with each repetition written out."""
        steps = 0
        while not (self._ended or self._is(")")):
            if self._passed("|"):
                continue
            each = self._atom(depth)
            while (times := self._times()) is not None:
                each *= times
            steps += each
            if steps > MAX_STEPS:
                raise self._broken(f"with its repetitions written out it matches more than {MAX_STEPS} characters")
        return steps

    def _times(self) -> int | None:
        """How often what stands before comes at most; None: nothing is said of it."""
        times = 1
        if self._is("{"):
            found = self._took(_TIMES)
            if found is None:
                raise self._broken("a { that is no repetition: write \\{")
            least, most = int(found[1]), int(found[2] or found[1])
            if most < least:
                raise self._broken("a repetition that ends before it begins")
            times = max(most, 1)
        elif self._is("*", "+", "?"):
            self._at += 1
        else:
            return None
        self._passed("?")
        return times

    def _atom(self, depth: int) -> int:
        if self._is("*", "+", "?", "{"):
            raise self._broken(f"a {self._pattern[self._at]} with nothing before it to repeat")
        if self._passed("("):
            return self._group(depth)
        if self._passed("["):
            self._class()
        elif self._passed("\\"):
            self._escape(inside=False)
        else:
            self._at += 1
        return 1

    def _group(self, depth: int) -> int:
        if depth >= MAX_GROUPS_DEEP:
            raise self._broken(f"groups nested deeper than {MAX_GROUPS_DEEP}")
        if self._is(*_LOOKS):
            raise self._broken("look-around, which takes more than linear time")
        if (named := self._took(_NAME)) is not None:
            if named[1] in self._names:
                raise self._broken(f"two groups named {named[1]}")
            self._names.add(named[1])
        elif self._is("?"):
            flags = self._took(_FLAGS)
            told = (flags[1] + (flags[2] or "")) if flags is not None else ""
            if flags is None or len(set(told)) < len(told):
                raise self._broken("a (? of a kind that is not known here")
            if flags[3] == ")":
                if not told or self._is("*", "+", "?", "{"):
                    raise self._broken("a (? ) that is no group")
                return 1
        steps = self._alternatives(depth + 1)
        if not self._passed(")"):
            raise self._broken("a ( that is not closed")
        return max(steps, 1)

    def _class(self) -> None:
        self._passed("^")
        if self._is("]"):
            raise self._broken("an empty [ ]")
        while not self._passed("]"):
            first = self._member()
            if self._is("-") and not self._is("-]"):
                if self._is("--"):
                    raise self._broken("-- inside [ ]: write \\-")
                self._at += 1
                last = self._member()
                if not (first and last):
                    raise self._broken("a range inside [ ] that begins or ends with a class: write \\-")
                if last < first:
                    raise self._broken("a range inside [ ] that ends before it begins")

    def _member(self) -> str:
        if self._ended:
            raise self._broken("a [ that is not closed")
        for text in _BETWEEN_SETS:
            if self._is(text):
                raise self._broken(f"{text} inside [ ]: write \\{text[0]}")
        if self._passed("\\"):
            return self._escape(inside=True)
        self._at += 1
        return self._pattern[self._at - 1]

    def _escape(self, *, inside: bool) -> str:
        """The character that is meant, or _SEVERAL."""
        if self._ended:
            raise self._broken("it ends with a \\")
        if (found := self._took(_HEX)) is not None:
            number = int(found[1] or found[2] or found[3], 16)
            if number > 0x10FFFF or 0xD800 <= number < 0xE000:
                raise self._broken(f"{number:x} is no character")
            return chr(number)
        if self._took(_PROPERTY) is not None:
            return _SEVERAL
        if (found := self._took(_CONTROL)) is not None:
            return chr(ord(found[0][1]) % 32)
        char = self._pattern[self._at]
        if char in "123456789k":
            raise self._broken(f"\\{char}, a reference to a group, which takes more than linear time")
        is_several = char in "dDwWsS" or (char in "bBAz" and not inside)
        if not (is_several or char in _SIGNS or char in _MARKS):
            raise self._broken(f"\\{char} is not known here")
        self._at += 1
        return _SEVERAL if is_several else _SIGNS.get(char, char)
