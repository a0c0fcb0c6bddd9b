"""How it looks: colours and a moving line in a terminal, plain lines everywhere else and with NO_COLOR."""

import os
import sys
from collections.abc import Iterable, Sequence

import click

_BAR = 30


class Screen:
    """Prints to stdout."""

    def __init__(self) -> None:
        self._terminal = sys.stdout.isatty()
        self._color = self._terminal and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
        self._moving = False

    def say(self, text: str = "", **style: bool | str) -> None:
        self._settle()
        click.echo(click.style(text, **style) if style else text, color=self._color)  # type: ignore[arg-type]

    def head(self, text: str) -> None:
        self.say()
        self.say(text, bold=True)

    def progress(self, done: int, whole: int, text: str) -> None:
        """The state of things: drawn over the last one in a terminal, else a line for every tenth."""
        if self._terminal:
            filled = _BAR * done // max(whole, 1)
            line = f"  [{'#' * filled}{'.' * (_BAR - filled)}] {done:3}/{whole}  {text}"
            sys.stdout.write(f"\r\x1b[2K{line}")
            sys.stdout.flush()
            self._moving = True
        elif done % max(whole // 10, 1) == 0:
            self.say(f"  {done:3}/{whole}  {text}")

    def table(self, rows: Iterable[Sequence[object]], *, indent: int = 2) -> None:
        """Columns as wide as they must be; numbers to the right."""
        texts = [[str(cell) for cell in row] for row in rows]
        numbers = [[isinstance(cell, int | float) for cell in row] for row in rows] if isinstance(rows, list) else []
        widths = [max(len(row[column]) for row in texts) for column in range(len(texts[0]))] if texts else []
        for number, row in enumerate(texts):
            right = numbers[number] if numbers else [False] * len(row)
            cells = [
                cell.rjust(width) if to_right else cell.ljust(width)
                for cell, width, to_right in zip(row, widths, right, strict=True)
            ]
            self.say(" " * indent + "  ".join(cells).rstrip())

    def _settle(self) -> None:
        if self._moving:
            sys.stdout.write("\n")
            self._moving = False
