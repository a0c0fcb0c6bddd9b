"""Free text to a capability: `intent:<text>` is ranked over the names, descriptions and examples of capabilities (BM25, deterministic).

Four readings of a text are counted: its words without their endings; the pieces of three letters of them, which still meet where a word
is bent or misspelt; words that stand near each other; and the words of the capability's name alone. Chinese, Japanese and Korean have no
spaces: there each character is a word, and so is each pair of neighbours. Where a model is plugged in (reach/routing/meanings.py), what is
near in meaning counts beside the words.
"""

import heapq
import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from typing import NamedTuple, Protocol

#: How soon a repeated word stops to count more, and how much a long description is held against a capability.
SATURATION, LENGTH_SHARE = 3.0, 0.9
#: What the readings count beside the words.
PIECES_SHARE, PAIRS_SHARE, NAME_SHARE = 0.2, 0.4, 0.3
#: A capability that shares less than this part of what the text says is no answer to it: no route is better than a wrong one.
FLOOR = 0.25
#: With a model: what is less near than this is no answer, and so much do the words still count beside it.
FLOOR_NEAR, WORDS_SHARE = 0.4, 0.1
#: How near two words stand that make a pair.
NEAR = 3
#: Of one capability and of one text so many characters are read.
MAX_READ = 10_000
MAX_TEXT = 1_000
#: What so many words gain is remembered until the next change.
MAX_REMEMBERED = 10_000

#: Words that say nothing of what is asked for.
_EMPTY = (
    "a an the is are am was were be been i my me you your it its this that to of in on for with and or do does did can could would will",
    "shall should have has had at as if so what how why when where there then than im ive id please",
    "的 了 吗 呢 我 你 是 在 这 那 个 请",
)
#: That somebody asks at all says nothing of what for.
_ASKING = (
    "want need like would help tell get give make know thing something anything",
    "想 要 想要 需要 帮 帮我 我想 我要 我 你",
)
_WORDS = re.compile(r"[^\W_]+(?:['\u2019][^\W_]+)?")
_CJK = re.compile(r"[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af]+")
_ENDINGS = (("ies", "y"), ("ing", ""), ("ation", "at"), ("ed", ""), ("es", ""), ("s", ""), ("ly", ""))
_SHORTEST_STEM = 3


class Ranked(NamedTuple):
    """A capability and how well it answers. `share`: the part of what the text says that the capability knows, 0 to 1."""

    capability: str
    score: float
    share: float


class Nearness(Protocol):
    """A model of what texts mean."""

    def tell(self, capability: str, texts: Iterable[str]) -> None:
        """This is said of it now; nothing: nobody offers it any more."""
        ...

    def near(self, text: str) -> Mapping[str, float]:
        """How near each capability is that the model has read, -1 to 1."""
        ...


def said_of(description: str, examples: Iterable[object]) -> Iterator[str]:
    """The texts by which a capability can be found: what it is, and what can be asked of it (the texts in an example that is no text)."""
    yield description
    for example in examples:
        yield example if isinstance(example, str) else " ".join(_texts_in(example))


def _texts_in(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for inner in value.values():
            yield from _texts_in(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _texts_in(inner)


def words_of(text: str) -> list[str]:
    """The words of a text, lower case and without their endings; of what is written without spaces, the characters and pairs of them."""
    found: list[str] = []
    for word in _WORDS.findall(text.lower()):
        at = 0
        for run in _CJK.finditer(word):
            found += _plain(word[at : run.start()])
            found += _pairs(run[0])
            at = run.end()
        found += _plain(word[at:])
    return found


def _plain(word: str) -> list[str]:
    return [_stem(word)] if word else []


def _pairs(run: str) -> list[str]:
    return [*run, *(run[at : at + 2] for at in range(len(run) - 1))]


def _stem(word: str) -> str:
    word = word.replace("\u2019", "'").removesuffix("'s").replace("'", "")
    if not word.isascii():
        return word
    for ending, instead in _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= _SHORTEST_STEM:
            word = word[: len(word) - len(ending)] + instead
            break
    if len(word) > _SHORTEST_STEM and word[-1] == word[-2] and word[-1] not in "ls":
        word = word[:-1]
    return word[:-1] if len(word) > _SHORTEST_STEM + 1 and word.endswith("e") else word


_EMPTY_WORDS = frozenset(word for line in _EMPTY for word in words_of(line))
_ASKING_WORDS = frozenset(word for line in _ASKING for word in words_of(line))


def _pieces(words: Iterable[str]) -> Iterator[str]:
    for word in words:
        if _CJK.match(word):
            yield from word
            continue
        marked = f"^{word}$"
        for at in range(len(marked) - 2):
            yield marked[at : at + 3]


def _near(words: Iterable[str]) -> Iterator[str]:
    told = [word for word in words if word not in _EMPTY_WORDS]
    for at, first in enumerate(told):
        for second in told[at + 1 : at + 1 + NEAR]:
            yield f"{first} {second}" if first < second else f"{second} {first}"


class _Field:
    """One inverted index that documents come into and leave. A gain is BM25's."""

    def __init__(self, share: float) -> None:
        self._share = share
        self._having: dict[str, dict[str, int]] = {}  # term -> document -> how often
        self._length: dict[str, int] = {}
        self._total = 0

    def add(self, name: str, terms: list[str]) -> None:
        for term, count in Counter(terms).items():
            self._having.setdefault(term, {})[name] = count
        self._length[name] = len(terms)
        self._total += len(terms)

    def remove(self, name: str, terms: list[str]) -> None:
        for term in set(terms):
            having = self._having[term]
            del having[name]
            if not having:
                del self._having[term]
        self._total -= self._length.pop(name)

    def weight(self, term: str) -> float:
        """How much is said by it: a word that everybody has says little, one that nobody has most."""
        count = len(self._having.get(term, ()))
        return math.log1p((len(self._length) - count + 0.5) / (count + 0.5))

    def has(self, term: str, name: str) -> bool:
        return name in self._having.get(term, ())

    def gain(self, term: str, into: dict[str, float]) -> None:
        """Add what each document has of this term."""
        having = self._having.get(term)
        if not having:
            return
        mean = self._total / len(self._length)
        most = self._share * self.weight(term) * (SATURATION + 1)
        fixed, sloped = SATURATION * (1 - LENGTH_SHARE), SATURATION * LENGTH_SHARE / mean
        for name, count in having.items():
            into[name] = into.get(name, 0.0) + most * count / (count + fixed + sloped * self._length[name])


class _Document(NamedTuple):
    words: list[str]
    pieces: list[str]
    pairs: list[str]
    name: list[str]


class Intents:
    """Ranks capabilities by free text. Fed by the index; nothing is read before the first question, and then only what has changed."""

    def __init__(self, texts_of: Callable[[str], Iterable[str]], model: Nearness | None = None) -> None:
        """`texts_of`: what all agents that offer a capability say of it; nothing where nobody offers it any more."""
        self._texts_of, self._model = texts_of, model
        self._changed: dict[str, None] = {}
        self._known: dict[str, _Document] = {}
        self._words, self._pieces, self._pairs = _Field(1.0), _Field(PIECES_SHARE), _Field(PAIRS_SHARE)
        self._names = _Field(NAME_SHARE)
        self._fields = (self._words, self._pieces, self._pairs, self._names)
        self._gains: dict[str, dict[str, float]] = {}  # of words that were asked for since the last change

    def __len__(self) -> int:
        """How many capabilities can be found."""
        self.read()
        return len(self._known)

    def changed(self, capability: str) -> None:
        """Somebody has begun or ceased to offer it, or says something else of it."""
        self._changed[capability] = None

    def rank(self, text: str, most: int = 3, floor: float = FLOOR) -> list[Ranked]:
        """The capabilities that answer best, best first; none where the best is below the floor. The same answer for the same question."""
        self.read()
        words = words_of(text[:MAX_TEXT])
        scores: dict[str, float] = {}
        for word in dict.fromkeys(words):
            gains = self._gains_of(word)
            for name, gain in gains.items() if scores else ():
                scores[name] = scores.get(name, 0.0) + gain
            if not scores:
                scores = gains.copy()
        for pair in dict.fromkeys(_near(words)):
            self._pairs.gain(pair, scores)
        near = self._model.near(text[:MAX_TEXT]) if self._model is not None and _is_spaced(words) else {}
        if near:
            scores = _blend(scores, near)
        ranked = [Ranked(name, scores[name], self._share(words, name)) for name in _best(scores, most)]
        if ranked and ranked[0].capability in near:
            return ranked  # near enough in meaning; single words say less
        return ranked if ranked and ranked[0].share >= floor else []

    def _gains_of(self, word: str) -> dict[str, float]:
        """What a word alone gains each capability: by itself, in its name, and by its pieces."""
        gains = self._gains.get(word)
        if gains is None:
            if len(self._gains) >= MAX_REMEMBERED:
                self._gains.clear()
            gains = self._gains[word] = {}
            self._words.gain(word, gains)
            self._names.gain(word, gains)
            for piece in dict.fromkeys(_pieces((word,))):
                self._pieces.gain(piece, gains)
        return gains

    def _share(self, words: list[str], name: str) -> float:
        """How much of what the telling words say the capability knows. A word that it does not know may have pieces that it does."""
        telling = dict.fromkeys(word for word in words if word not in _EMPTY_WORDS and word not in _ASKING_WORDS)
        if not telling:  # it asks, and does not say for what
            return 0.0
        known = 0.0
        for word in telling:
            if self._words.has(word, name):
                known += 1
                continue
            pieces = list(_pieces((word,)))
            there = sum(self._pieces.has(piece, name) for piece in pieces) / len(pieces)
            known += there if _CJK.match(word) else there**2
        return known / len(telling)

    def read(self, most: int | None = None) -> int:
        """Read what has changed, or so much of it. How much is left: of thousands of capabilities it takes seconds."""
        changed = list(islice(self._changed, most))
        if changed:
            self._gains.clear()
        for capability in changed:
            del self._changed[capability]
            before = self._known.pop(capability, None)
            if before is not None:
                for field, terms in zip(self._fields, before, strict=True):
                    field.remove(capability, terms)
            told = dict.fromkeys(self._texts_of(capability))
            if self._model is not None:
                self._model.tell(capability, (_spoken(capability), *_within(told)) if told else ())
            if not told:
                continue
            document = self._known[capability] = _document(capability, told)
            for field, terms in zip(self._fields, document, strict=True):
                field.add(capability, terms)
        return len(self._changed)


def _is_spaced(words: list[str]) -> bool:
    """Whether most of it is written with spaces: the models that are small enough for a router know nothing else."""
    return 2 * sum(_CJK.match(word) is not None for word in words) < max(len(words), 1)


def _best(scores: Mapping[str, float], most: int) -> list[str]:
    """The names with the highest scores, the highest first, of equal ones the first by name."""
    least = min(heapq.nlargest(most, scores.values()), default=0.0)
    return sorted((name for name, score in scores.items() if score >= least), key=lambda name: (-scores[name], name))[
        :most
    ]


def _blend(scores: Mapping[str, float], near: Mapping[str, float]) -> dict[str, float]:
    """Nearness in meaning, and a little of what the words gain. Where nothing is near, what the model has not read yet, by its words."""
    if max(near.values()) < FLOOR_NEAR:
        return {name: score for name, score in scores.items() if name not in near}
    most = max(scores.values(), default=0.0) or 1.0
    return {name: nearness + WORDS_SHARE * scores.get(name, 0.0) / most for name, nearness in near.items()}


def _spoken(capability: str) -> str:
    return capability.replace("-", " ").replace("_", " ").replace(".", " ")


def _document(capability: str, told: Iterable[str]) -> _Document:
    name = words_of(_spoken(capability))
    texts = [words_of(text) for text in _within(told)]
    words = name + [word for text in texts for word in text]
    pairs = [pair for text in (name, *texts) for pair in _near(text)]
    return _Document(words, list(_pieces(words)), pairs, name)


def _within(texts: Iterable[str]) -> Iterator[str]:
    left = MAX_READ
    for text in texts:
        if left <= 0:
            return
        yield text[:left]
        left -= len(text)
