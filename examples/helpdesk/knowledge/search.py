"""Search by BM25: for questions that describe a thing and do not name it."""

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping

_SATURATION = 1.2


class Search:
    """An inverted index: term -> (number of the text, weight)."""

    def __init__(self, texts: Iterable[Counter[str]], *, length_share: float, most: float) -> None:
        """Build the index.

        Args:
            texts: The terms of each text with their weights.
            length_share: How much a long text loses against a short one, 0 to 1.
            most: What the rarest term says.
        """
        weights = list(texts)
        sizes = [counts.total() for counts in weights]
        self._most = most
        self._texts = sum(size > 0 for size in sizes)
        mean = sum(sizes) / max(self._texts, 1)
        self._postings: dict[str, list[tuple[int, float]]] = defaultdict(list)
        for number, (counts, size) in enumerate(zip(weights, sizes, strict=True)):
            norm = _SATURATION * (1 - length_share + length_share * size / mean)
            for term, count in counts.items():
                self._postings[term].append((number, count * (_SATURATION + 1) / (count + norm)))

    def __contains__(self, term: str) -> bool:
        return term in self._postings

    def rarity(self, term: str) -> float:
        """How much a term says: near 0 for one that is everywhere."""
        count = len(self._postings.get(term, ()))
        return min(math.log(1 + (self._texts - count + 0.5) / (count + 0.5)), self._most)

    def scores(self, query: Mapping[str, float]) -> dict[int, float]:
        """The texts that have one of the terms, by number, with how well they fit: more of the query counts for more than its sum.

        Args:
            query: The terms that are looked for, with their weights.
        """
        wanted = {term: self.rarity(term) * weight for term, weight in query.items() if term in self._postings}
        found: dict[int, float] = defaultdict(float)
        covered: dict[int, float] = defaultdict(float)
        for term, worth in wanted.items():
            for number, weight in self._postings[term]:
                found[number] += worth * weight
                covered[number] += worth
        whole = sum(wanted.values())
        return {number: score * (0.5 + 0.5 * covered[number] / whole) for number, score in found.items()}
