"""The word lists beside this file. Lines that start with # are comments."""

from collections import defaultdict
from pathlib import Path

_FOLDER = Path(__file__).with_name("wordlists")


def words(name: str) -> frozenset[str]:
    """A list of words, as `small` or `everyday`."""
    return frozenset(word for line in _lines(name) for word in line.split())


def pairs(name: str) -> dict[str, str]:
    """Lines of the form `key: text`, as `hints` or `same`; the texts of one key are joined."""
    found: dict[str, list[str]] = defaultdict(list)
    for line in _lines(name):
        key, _, text = line.partition(": ")
        found[key].append(text.strip())
    return {key: " ".join(texts) for key, texts in found.items()}


def _lines(name: str) -> list[str]:
    lines = (_FOLDER / f"{name}.txt").read_text("utf-8").splitlines()
    return [line for line in lines if line.strip() and not line.startswith("#")]
