"""What texts mean, as vectors of a model that is plugged in: the other half of `intent:` where the extra `semantic` is there. No I/O.

A capability is as near to a text as its nearest sentence and the mean of all its sentences are.
"""

from collections.abc import Callable, Iterable, Sequence
from itertools import islice

import numpy as np
from numpy.typing import NDArray

Vectors = NDArray[np.float32]
Embed = Callable[[list[str]], Sequence[Sequence[float]] | Vectors]
"""Texts to one vector each, all of one length. Called from a thread, too."""

#: Texts that were asked for and whose vectors are remembered (1.5 KB each with 384 numbers).
MAX_ASKED = 10_000
#: Of one capability so many sentences are read.
MAX_SENTENCES = 32
#: Of so many capabilities, the nearest by their means, the single sentences are looked at.
MAX_LOOKED_AT = 200


class Meanings:
    """Vectors of what is said of capabilities, and of what was asked. Not for several threads at once, but for `embed`."""

    def __init__(self, embed: Embed) -> None:
        self._embed = embed
        self._told: dict[str, list[str]] = {}
        self._unread: dict[str, list[str]] = {}
        self._sentences: dict[str, Vectors] = {}
        self._asked: dict[str, Vectors] = {}
        self._names: list[str] = []
        self._means: Vectors | None = None  # one row for each of the names; None: to be stacked anew

    def embed(self, texts: list[str]) -> Vectors:
        """One row of length 1 for each text; slow, and safe in any thread."""
        rows = np.asarray(self._embed(texts), dtype=np.float32)
        if rows.ndim != 2 or len(rows) != len(texts):
            raise ValueError(f"the model gave no vector for each of {len(texts)} texts, but the shape {rows.shape}")
        return _unit(rows)

    # ---------------------------------------------------------------- capabilities
    def tell(self, capability: str, texts: Iterable[str]) -> None:
        """This is said of it now; nothing: nobody offers it any more. Other texts than before are read anew."""
        told = [text for text in islice(texts, MAX_SENTENCES) if text.strip()]
        if told == self._told.get(capability, []):
            return  # another agent has come that says the same
        self._told.pop(capability, None)
        self._unread.pop(capability, None)
        if self._sentences.pop(capability, None) is not None:
            self._means = None
        if told:
            self._told[capability] = self._unread[capability] = told

    def unread(self, most: int) -> dict[str, list[str]]:
        """Some of the capabilities whose sentences have no vectors yet, with about `most` sentences in all."""
        found: dict[str, list[str]] = {}
        for capability, texts in self._unread.items():
            if most <= 0:
                break
            found[capability] = texts
            most -= len(texts)
        return found

    def learn(self, read: dict[str, list[str]], vectors: Vectors) -> None:
        """The vectors of what `unread` gave; a capability of which something else is said by now stays unread."""
        at = 0
        for capability, texts in read.items():
            rows = vectors[at : at + len(texts)]
            at += len(texts)
            if self._unread.get(capability) == texts:
                del self._unread[capability]
                self._sentences[capability] = rows
                self._means = None

    def read_all(self) -> None:
        """Read everything now: for whoever may wait."""
        while read := self.unread(1_000):
            self.learn(read, self.embed([text for texts in read.values() for text in texts]))

    # ---------------------------------------------------------------- texts
    def unasked(self, texts: Iterable[str]) -> list[str]:
        """Those of them that `near` would have to embed first."""
        return [text for text in dict.fromkeys(texts) if text not in self._asked]

    def ask(self, texts: Sequence[str], vectors: Vectors) -> None:
        """Remember the vectors of texts."""
        if len(self._asked) + len(texts) > MAX_ASKED:
            self._asked.clear()
        self._asked.update(zip(texts, vectors, strict=True))

    def near(self, text: str) -> dict[str, float]:
        """How near to it each capability is that was read, -1 to 1."""
        if not self._sentences:
            return {}
        for unknown in self.unasked([text]):
            self.ask([unknown], self.embed([unknown]))
        asked = self._asked[text]
        if self._means is None:
            self._names = list(self._sentences)
            self._means = _unit(np.stack([rows.mean(axis=0) for rows in self._sentences.values()]))
        to_means = self._means @ asked
        nearest = np.argsort(-to_means, kind="stable")[:MAX_LOOKED_AT]
        return {
            self._names[at]: float((to_means[at] + (self._sentences[self._names[at]] @ asked).max()) / 2)
            for at in nearest
        }


def _unit(rows: Vectors) -> Vectors:
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    found: Vectors = rows / np.maximum(lengths, 1e-9)
    return found
