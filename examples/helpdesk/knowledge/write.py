"""An answer in a few lines: the signature, what it is, and the part of the documentation that the question is for."""

import re
import textwrap
from collections.abc import Iterator, Sequence

from examples.helpdesk.knowledge.words import terms
from examples.helpdesk.messages import Docs, Intent

WIDTH = 88
_MAX_SIGNATURE = 160
_MAX_PART = 320
_SENTENCE = re.compile(r"(?<=[.!?])\s+(?=[A-Z*'\"`(])")


def write(intent: Intent, docs: Docs) -> str:
    """The answer as plain text, its lines at most WIDTH wide."""
    blocks = [_wrapped(_signature(docs), indent="    ")] if docs.signature else [docs.name]
    blocks.append(_wrapped(docs.summary))
    part = fitting_part(
        docs.paragraphs, [*intent.about, *_parameters_named(intent.question, docs.signature)], docs.summary
    )
    if part:
        blocks.append(part if part.lstrip().startswith(">>>") else _wrapped(part))
    if intent.others:
        blocks.append(_wrapped(f"See also: {', '.join(intent.others)}."))
    return "\n".join(blocks)


def fitting_part(paragraphs: Sequence[str], about: Sequence[str], summary: str) -> str:
    """The sentence that has most of what was asked, with the one that follows it; the first if none has anything of it.

    A word counts for more the fewer sentences have it.
    """
    sentences = [each for each in _sentences(paragraphs) if each[0] not in summary]
    wanted = set(terms(" ".join(about)))
    if not sentences:
        return ""
    found = [wanted & set(terms(text)) for text, _ in sentences]
    frequency = {term: sum(term in each for each in found) for term in wanted}
    scores = [sum(1 / (1 + frequency[term]) for term in each) for each in found]
    best = max(range(len(sentences)), key=lambda number: (scores[number], -number))
    text, prose = sentences[best]
    following = sentences[best + 1][0] if prose and best + 1 < len(sentences) and sentences[best + 1][1] else ""
    both = f"{text} {following}".strip()
    return both if len(both) <= _MAX_PART else _cut(text)


def _sentences(paragraphs: Sequence[str]) -> Iterator[tuple[str, bool]]:
    """(text, whether it is prose): an example stays whole."""
    for paragraph in paragraphs:
        if ">>>" in paragraph:
            yield paragraph, False
        else:
            yield from ((sentence, True) for sentence in _SENTENCE.split(paragraph))


def _parameters_named(question: str, signature: str) -> list[str]:
    parameters = set(re.findall(r"(\w+)(?=\s*[:=,)])", signature))
    return [word for word in re.findall(r"\w+", question) if word in parameters]


def _signature(docs: Docs) -> str:
    return docs.signature if len(docs.signature) <= _MAX_SIGNATURE else f"{docs.name}(...)"


def _cut(text: str) -> str:
    if "\n" in text:
        return "\n".join(text.splitlines()[:6])
    return text if len(text) <= _MAX_PART else f"{text[: _MAX_PART - 3].rsplit(' ', 1)[0]}..."


def _wrapped(text: str, indent: str = "") -> str:
    return textwrap.fill(text, WIDTH, initial_indent=indent, subsequent_indent=indent + "    " * bool(indent))
