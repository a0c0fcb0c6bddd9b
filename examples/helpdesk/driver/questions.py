"""The questions, and which half of them the parser was tuned on."""

import json
from collections.abc import Sequence
from pathlib import Path

from examples.helpdesk.driver.conversation import Asked

SHIPPED = Path(__file__).parents[1] / "questions.jsonl"


def read(path: Path) -> list[Asked]:
    """A file of questions: JSON lines with `question` (and `id`, `object`, `also` where they are known), or plain text, one a line.

    Raises:
        ValueError: A line that begins with a brace is no such JSON; the message has its number.
        OSError: The file cannot be read.
    """
    found = []
    for number, line in enumerate(path.read_text("utf-8").splitlines(), 1):
        text = line.strip()
        if text.startswith("{"):
            found.append(_of_json(text, number))
        elif text:
            found.append(Asked(f"line-{number}", text))
    return found


def tuned(asked: Asked) -> bool:
    """Whether the parser was tuned on this one: the odd numbers. The even ones were never looked at."""
    return int(asked.id.lstrip("q")) % 2 == 1


def share(found: Sequence[bool]) -> float:
    """How many are true, 0 to 1; 0 of none is 0."""
    return sum(found) / len(found) if found else 0.0


def _of_json(text: str, number: int) -> Asked:
    try:
        row = json.loads(text)
        names = (row["object"], *row.get("also", ())) if "object" in row else ()
        return Asked(str(row.get("id", f"line-{number}")), str(row["question"]), names)
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"line {number} is no JSON object with a question") from error
