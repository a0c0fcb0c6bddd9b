"""Text to words: what a question is about, without its small words and endings."""

import re

from examples.helpdesk.knowledge import vocabulary

SMALL = vocabulary.words("small")
SAME = {word: chief for chief, others in vocabulary.pairs("same").items() for word in others.split()}

_WORD = re.compile(r"[A-Za-z]+|\d+")
_CAMEL = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+")
#: ending, how much must be left of the word, what takes its place
_ENDINGS = (
    ("ations", 3, ""),
    ("ation", 3, ""),
    ("ings", 3, ""),
    ("ing", 3, ""),
    ("edly", 3, ""),
    ("ied", 3, "y"),
    ("ies", 3, "y"),
    ("ed", 3, ""),
    ("es", 4, ""),
    ("ly", 4, ""),
    ("s", 2, ""),
)


def stem(word: str) -> str:
    """The word without the commonest English endings: sorted, sorting, sorts -> sort."""
    for ending, left, instead in _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= left and not word.endswith("ss"):
            word = word[: -len(ending)] + instead
            break
    if len(word) > 3 and word[-1] == word[-2] and word[-1] not in "sl":
        word = word[:-1]
    return word[:-1] if len(word) > 4 and word.endswith("e") else word


def terms(text: str) -> list[str]:
    """The stems of the words that carry meaning, in order, repeated words repeatedly.

    Names in code are split (`compare_digest`, `TaskGroup`), and a number of three digits or more counts as the word "number".
    """
    found: list[str] = []
    for run in _WORD.findall(text):
        if run.isdigit():
            found += ["number"] * (len(run) > 2)
            continue
        mixed = not run.islower() and not run.isupper()
        for part in {run.lower(), *map(str.lower, _CAMEL.findall(run))} if mixed else {run.lower()}:
            if part not in SMALL and len(part) > 1:
                found.append(stem(SAME.get(part, part)))
    return found
