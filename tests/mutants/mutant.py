"""A mutant: the tree without one guard in one place. The test that it names must fail there."""

from pathlib import Path
from typing import NamedTuple


class Mutant(NamedTuple):
    """One guard removed in one place.

    `name` begins with where it is (lua, memory, python); `guard` is a guard of the model (tests/model/guards.py, lease_clock.py,
    conversation.py); `old` must stand once in `file`. `test` is the node id of the test that must catch it; where that test runs on
    several backends, it is run on a server for lua, and on the memory backend for memory. `raises`: the error that reaches the test
    where nothing stops it any more, since that is what the guard is for; without it the test must say itself what is wrong.
    """

    name: str
    guard: str
    file: str
    old: str
    new: str
    test: str
    raises: str = ""

    @property
    def place(self) -> str:
        """lua, memory or python."""
        return self.name.partition(":")[0]

    def applied(self, text: str) -> str:
        """The mutated text of the file.

        Raises:
            ValueError: The text does not stand once, and no more, in it: the code has changed, and the mutant must be changed too.
        """
        count = text.count(self.old)
        if count != 1:
            raise ValueError(
                f"the mutant {self.name} finds its text {count} times in {self.file}, not once: {self.old}"
            )
        return text.replace(self.old, self.new)

    def faults(self, root: Path) -> list[str]:
        """What is stale in it: a text that is not there any more, a test that is gone."""
        try:
            changed = self.applied((root / self.file).read_text(encoding="utf-8")) != ""
        except (OSError, ValueError) as error:
            return [f"{self.name}: {error}"]
        path, _, function = self.test.partition("::")
        source = root / path
        there = source.is_file() and f"def {function}(" in source.read_text(encoding="utf-8")
        found = [] if there else [f"{self.name}: there is no test {self.test}"]
        return found + ([] if changed and self.old != self.new else [f"{self.name}: it changes nothing"])
