"""Which name of the standard library a question is about. Pure: a question goes in, ranked names come out.

Three kinds of evidence are added up: the name stands in the question, its module or class stands there, and the words of the question
stand in its docstring or in the list of what people call it. What is well known wins over what nobody asks for.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from difflib import get_close_matches

import msgspec

from examples.helpdesk.knowledge import catalogue, vocabulary
from examples.helpdesk.knowledge.catalogue import Entry
from examples.helpdesk.knowledge.mentions import CODE, FAULT, SURE, Mention, mentions
from examples.helpdesk.knowledge.scope import Scope, scope_of
from examples.helpdesk.knowledge.search import Search
from examples.helpdesk.knowledge.words import SMALL, stem, terms
from examples.helpdesk.messages import Intent

# Set on the odd questions of questions.jsonl, and on others of our own. A third more or less of any one changes little.
_NAME = 12.0  # the name stands in the question
_EARLY = 0.3  # more for the first word of the question, falling to nothing at the tenth
_DOT = 6.0  # for each dot of a dotted name
_OWNER = 7.0  # its module or class stands there
_NAMED_BESIDE = 0.5  # of a name's weight: then a method is named beside its class
_NAMED_INSIDE = 1.0  # of a name's weight: then a member of the module is named, not described
_PRIOR_INSIDE = 0.7
_KIND_INSIDE = 3.0
_DOCS = 0.3
_HINTS = 1.8
_SECOND_PHRASE = 0.6
_OTHER_CASE = 0.7
_RARE = 6.0  # a word of which the docstrings have few is meant as a name, even if few people know it
_UNKNOWN_BUT_RARE = 0.85
_NAME_IN_TEXT = 0.4  # a name that was recognised tells little more when it stands in docstrings too
_TEXT_BESIDE_NAME = 0.4
_WELL_KNOWN = 1.5
_BUILTIN = 0.7
_KINDS = {"module": -1.0, "method": -1.0, "attribute": -2.0, "data": -2.0}
#: modules whose names are mostly meant from another one: Event, Lock and Queue from threading and queue, List from the builtins
_SELDOM = {
    "ast": -2.0,
    "token": -2.0,
    "asyncio": -1.0,
    "ctypes": -1.0,
    "curses": -1.0,
    "multiprocessing": -1.0,
    "typing": -1.0,
}
_NAMED_KINDS = ("module", "class", "function")
_INHERITED = -2.0
_SECOND_NAME = -2.5

_CLOSE = 0.85  # of the best score: worth to be named beside it
_MAX_DOC = 1_500
_WORDS = re.compile(r"\w+")
_KEYWORD = re.compile(r"(\w+)=")


class Candidate(msgspec.Struct, frozen=True):
    """A name and how well it fits; the numbers of two questions cannot be compared."""

    entry: Entry
    score: float


class Parser:
    """Knows the catalogue. Building it takes about a second; a question takes a few milliseconds."""

    def __init__(self, entries: Sequence[Entry] | None = None, hints: dict[str, str] | None = None) -> None:
        self._entries = catalogue.entries() if entries is None else entries
        self._known = vocabulary.pairs("hints") if hints is None else hints
        self._docs = Search(map(_doc_terms, self._entries), length_share=0.5, most=6.5)
        self._phrases = [(number, phrase) for number, entry in enumerate(self._entries) for phrase in self._said(entry)]
        self._hints = Search((Counter(terms(phrase)) for _, phrase in self._phrases), length_share=0.3, most=6.0)
        self._prior = [self._standing(entry) for entry in self._entries]
        self._lasts = {entry.last for entry in self._entries}
        self._modules = {entry.name.lower() for entry in self._entries if entry.kind == "module"}
        self._scopes: dict[str, Search] = {}
        self._tails: dict[str, list[int]] = defaultdict(list)
        for number, entry in enumerate(self._entries):
            parts = entry.name.lower().split(".")
            for start in range(len(parts)):
                self._tails[".".join(parts[start:])].append(number)

    def rank(self, question: str, most: int = 5) -> list[Candidate]:
        """The names that the question may be about, the best first; none if no word of it means anything here."""
        found = list(mentions(question, self._lasts))
        names = self._names(found)
        scores = self._scores(question, found, names)
        scope = scope_of(question, self._modules)
        if scope:
            members = self._members(scope.name)
            named = self._names([mention for mention in found if mention.text.lower() != scope.word])
            if not any(named.get(number, 0.0) >= _NAMED_INSIDE * _NAME for number in members):
                within = self._within(question, scope, members)
                top = max(scores.values(), default=0.0)
                scores |= {number: top + score for number, score in within.items()}
        self._prefer_methods(scores, names)
        best = sorted(scores, key=lambda each: (-scores[each], len(self._entries[each].name), self._entries[each].name))
        return [Candidate(self._entries[number], scores[number]) for number in best[:most]]

    def _scores(self, question: str, found: Sequence[Mention], names: Mapping[int, float]) -> dict[int, float]:
        owners = _owners(found)
        texts = self._texts(question, found)
        scores = {}
        for number in names.keys() | texts.keys():
            entry = self._entries[number]
            score = self._prior[number] + texts.get(number, 0.0)
            name = names.get(number, 0.0)
            above = set(entry.name.lower().split(".")[:-1])
            owner = sum(owners.get(part, 0.0) for part in above) * (1.0 if len(above) < 2 else 0.75)
            scores[number] = score + name + _OWNER * owner
        return scores

    def _prefer_methods(self, scores: dict[int, float], names: Mapping[int, float]) -> None:
        """Where the best is a class, and one of its methods is named as well, that one is meant."""
        if not scores:
            return
        best = max(scores, key=lambda number: scores[number])
        owner = self._entries[best].name
        for number, name in names.items():
            entry = self._entries[number]
            if entry.owner == owner and entry.kind == "method" and name >= _NAMED_BESIDE * _NAME:
                scores[number] = max(scores[number], scores[best] + 1 + name / 100)

    def _members(self, scope: str) -> list[int]:
        """What lies in a module, or in a type: all but itself and second names."""
        return [
            number
            for number, entry in enumerate(self._entries)
            if entry.home
            and entry.name.lower() != scope
            and (
                entry.owner.lower() == scope
                or (f"{entry.module.lower()}.".startswith(f"{scope}.") and not (scope == "builtins" and entry.owner))
            )
        ]

    def _within(self, question: str, scope: Scope, members: Sequence[int]) -> dict[int, float]:
        """How well the members of a scope fit a description: a word counts for what it tells among them."""
        search = self._scopes.get(scope.name)
        if search is None:
            search = Search(
                (self._member_terms(self._entries[number]) for number in members), length_share=0.7, most=5.0
            )
            self._scopes[scope.name] = search
        own = set(terms(scope.name))
        query = {term: 1.0 for term in terms(question) if term not in own}
        found = {}
        for position, score in search.scores(query).items():
            entry = self._entries[members[position]]
            likely = _PRIOR_INSIDE * self._prior[members[position]] + _KIND_INSIDE * (entry.kind == scope.kind)
            found[members[position]] = score + likely
        return found

    def _member_terms(self, entry: Entry) -> Counter[str]:
        counts = _doc_terms(entry)
        for term in terms(self._known.get(entry.name, "")):
            counts[term] += 2
        return counts

    def intent(self, question: str) -> Intent | None:
        """What the question is about, and what for; None if no word of it means anything here."""
        ranked = self.rank(question, 3)
        if not ranked:
            return None
        best, *rest = ranked
        named = set(terms(best.entry.name))
        about = tuple(word for word in _WORDS.findall(question) if any(term not in named for term in terms(word)))
        close = tuple(other.entry.name for other in rest if other.score >= _CLOSE * best.score)
        return Intent(question, best.entry.name, best.entry.kind, about, close)

    def _names(self, found: Sequence[Mention]) -> dict[int, float]:
        """Entries whose name stands in the question. A dotted mention may be any tail of the full name, or lead to one."""
        names: dict[int, float] = defaultdict(float)
        for position, mention in enumerate(found):
            early = 1 + _EARLY * max(0.0, 1 - position / 10)
            for start in range(len(mention.parts)):
                for end in range(len(mention.parts), start, -1):
                    weight = (mention.sure * _NAME + _DOT * (end - start - 1)) * early
                    if end < len(mention.parts):
                        weight *= 0.5
                    for number in self._named(mention, start, end):
                        fit = weight * self._fit(
                            self._entries[number], mention.text.split(".")[start:end], code=mention.sure == CODE
                        )
                        names[number] = max(names[number], fit)
        return names

    def _named(self, mention: Mention, start: int, end: int) -> Sequence[int]:
        tail = ".".join(mention.parts[start:end])
        if tail in SMALL and mention.sure < SURE:
            return ()
        return self._tails.get(tail) or self._tails.get(_singular(tail)) or self._misspelled(tail)

    def _misspelled(self, word: str) -> Sequence[int]:
        """What a word may have been meant to be that stands in no docstring: `defaultdcit`, `isinstnace`."""
        if len(word) < 6 or not word.isalpha() or stem(word) in self._docs:
            return ()
        alike = [
            name for name in self._tails if name[0] == word[0] and abs(len(name) - len(word)) < 2 and "." not in name
        ]
        close = get_close_matches(word, alike, n=1, cutoff=0.85)
        return self._tails[close[0]] if close else ()

    def _fit(self, entry: Entry, written: list[str], *, code: bool) -> float:
        fit = 1.0 if entry.name.endswith(".".join(written)) else _OTHER_CASE
        plain = len(written) == 1 and "_" not in written[0] and "." in entry.name
        if plain and not code and entry.name not in self._known and entry.kind != "module":
            ordinary = self._docs.rarity(stem(written[0].lower())) < _RARE
            fit *= (0.5 if entry.owner or entry.kind == "data" else 0.75) if ordinary else _UNKNOWN_BUT_RARE
        return fit

    def _texts(self, question: str, found: Sequence[Mention]) -> dict[int, float]:
        """Entries whose docstring or hint has words of the question."""
        query = dict.fromkeys((term for term in terms(question) if term == "number"), 1.0)
        query |= dict.fromkeys(terms(" ".join(_KEYWORD.findall(question))), 1.0)
        named = False
        for mention in found:
            hits = self._tails.get(mention.parts[-1], ()) if mention.sure >= FAULT else ()
            hits = () if mention.text.lower() in SMALL else hits
            named = named or self._is_name(mention, hits)
            for term in terms(mention.text):
                query[term] = max(query.get(term, 0.0), _NAME_IN_TEXT if hits else 1.0)
        scale = _TEXT_BESIDE_NAME if named else 1.0
        docs, hints = self._docs.scores(query), self._hinted(query)
        return {
            number: scale * (_DOCS * docs.get(number, 0.0) + _HINTS * hints.get(number, 0.0))
            for number in docs.keys() | hints.keys()
        }

    def _is_name(self, mention: Mention, hits: Sequence[int]) -> bool:
        """Whether the mention of these is a name beyond doubt, so that the words beside it count for less."""
        rare = mention.sure == CODE or self._docs.rarity(stem(mention.parts[-1])) >= _RARE
        return bool(hits) and (rare or any(self._telling(self._entries[number]) for number in hits))

    def _telling(self, entry: Entry) -> bool:
        return self._well_known(entry) or entry.kind in _NAMED_KINDS

    def _well_known(self, entry: Entry) -> bool:
        return entry.name in self._known or entry.module == "builtins"

    def _standing(self, entry: Entry) -> float:
        return (
            _WELL_KNOWN * (entry.name in self._known)
            + _BUILTIN * (entry.module == "builtins")
            + _KINDS.get(entry.kind, 0.0)
            + _SELDOM.get(entry.module.partition(".")[0], 0.0)
            + _INHERITED * entry.inherited
            + _SECOND_NAME * (not entry.home)
        )

    def _said(self, entry: Entry) -> list[str]:
        hint = self._known.get(entry.name)
        return [f"{phrase} {entry.last}" for phrase in hint.split(" | ")] if hint else []

    def _hinted(self, query: dict[str, float]) -> dict[int, float]:
        """Entries that people ask for in these words: the best phrase counts, and the second best a little."""
        best: dict[int, float] = defaultdict(float)
        second: dict[int, float] = defaultdict(float)
        for phrase, score in self._hints.scores(query).items():
            number = self._phrases[phrase][0]
            second[number] = max(second[number], min(score, best[number]))
            best[number] = max(best[number], score)
        return {number: score + _SECOND_PHRASE * second[number] for number, score in best.items()}


def _doc_terms(entry: Entry) -> Counter[str]:
    summary, _, rest = entry.doc[:_MAX_DOC].strip().partition("\n\n")
    counts: Counter[str] = Counter()
    for text, weight in ((entry.last, 3), (entry.name, 1), (summary, 2), (rest, 1), (" ".join(entry.parameters), 1)):
        for term in terms(text):
            counts[term] += weight
    return counts


def _owners(found: Sequence[Mention]) -> dict[str, float]:
    """The words of the question that may be a module or a class, with how surely."""
    owners: dict[str, float] = defaultdict(float)
    for mention in found:
        for part in mention.parts:
            for form in (part, _singular(part)):
                if form not in SMALL or mention.sure == CODE:
                    owners[form] = max(owners[form], mention.sure)
    return owners


def _singular(word: str) -> str:
    return word[:-1] if word.endswith("s") and len(word) > 3 else word
