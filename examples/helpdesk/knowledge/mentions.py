"""The words of a question that may be names of the library, and how surely they are meant as names."""

import re
from collections.abc import Container, Iterator

import msgspec

from examples.helpdesk.knowledge import vocabulary

CODE, SURE, FAULT, MAYBE, EVERYDAY = 1.0, 0.9, 0.8, 0.5, 0.15

_EVERYDAY = vocabulary.words("everyday") | vocabulary.words("small")
_NAME = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*")
_CALL = re.compile(r"(?<=\w)\([^()]*\)")
#: a text between quotes that is more than one word: an example value, not a name
_TEXT = re.compile(r"(?<!\w)(['\"])[^'\"]*[^\w'\"][^'\"]*\1(?!\w)")
_CAMEL = re.compile(r"[a-z][A-Z]|^[A-Z]+[a-z]+[A-Z]")
#: what stands behind a word that is meant as a name: "what does filter do", "Counter's order", "the range type"
_BEHIND = re.compile(
    r"\s*(?:function|method|class|decorator|module|type|builtin|context manager|constructor|vs\b|versus\b|"
    r"do\b|does\b|instead of|good for\b|really\b|actually\b|return)|'s\b",
    re.IGNORECASE,
)
#: what stands before it: "does zip", "the function sum", "between copy", "what is slice"
_BEFORE = re.compile(
    r"(?:^|\b)(?:function|method|class|decorator|module|type|vs\.?|versus|between|do i call|call(?:ing)?|"
    r"^can|^is|^what is|^what'?s|^why is|^why does|^how does|^when does|what does|^does)\s+(?:the\s+|an?\s+)?$",
    re.IGNORECASE,
)
#: what follows a name that opens the question: "zip on two lists", "median of a list"
_OPENING = re.compile(r"\s+(?:of|on|or|and|without|with|in|from|vs)\b", re.IGNORECASE)


class Mention(msgspec.Struct, frozen=True):
    """A word, or words joined by dots. `sure`: from EVERYDAY (hardly meant as a name) to CODE (written as one)."""

    text: str
    sure: float

    @property
    def parts(self) -> list[str]:
        return self.text.lower().split(".")


def mentions(question: str, names: Container[str]) -> Iterator[Mention]:
    """Every word of the question, in order. What stands between the parentheses of a call is left out.

    Args:
        question: As it was typed.
        names: The last parts of all names of the library, in their own case.
    """
    question = _CALL.sub(lambda call: "()" + " " * (len(call[0]) - 2), question)
    question = _TEXT.sub(lambda text: " " * len(text[0]), question)
    for match in _NAME.finditer(question):
        before, behind = question[: match.start()], question[match.end() :]
        yield Mention(match[0], _sure(match[0], before, behind, names))


def _sure(word: str, before: str, behind: str, names: Container[str]) -> float:
    if word.endswith(("Error", "Warning", "Exception")):
        return FAULT
    quoted = before.endswith("`") and not behind.startswith(" ")
    if "_" in word.strip("_") or "." in word or behind.startswith("(") or quoted or _CAMEL.search(word):
        return CODE
    opening = not before.strip()
    if opening and behind.startswith((",", ":", " -")):
        return CODE
    if word.lower() not in _EVERYDAY and word.lower().removesuffix("s") not in _EVERYDAY:
        return SURE
    named = _BEHIND.match(behind) or _BEFORE.search(before) or (opening and _OPENING.match(behind))
    own_case = word[0].isupper() and not word.isupper() and word in names
    if named or (own_case and not opening):
        return SURE
    return MAYBE if own_case or opening else EVERYDAY
