"""`make demo`, `reach demo`, `python -m examples.helpdesk`: see the README beside this file."""

import asyncio
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

import click

from examples.helpdesk.driver import questions
from examples.helpdesk.driver.conversation import Asked
from examples.helpdesk.driver.demo import play
from examples.helpdesk.driver.desk import answer
from examples.helpdesk.driver.screen import Screen
from examples.helpdesk.driver.stage import StageError, set_up
from reach import ReachError

FAILED, INTERRUPTED, TERMINATED = 1, 130, 143


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--ask",
    "texts",
    multiple=True,
    metavar="QUESTION",
    help="Answer this question (several times: these), and kill nobody.",
)
@click.option("--file", "path", type=click.Path(exists=True, dir_okay=False, path_type=Path),
              help="Answer the questions of a file, one a line or JSON lines with `question`.")  # fmt: skip
@click.option(
    "--count",
    type=click.IntRange(4),
    help="Only so many of the shipped questions; the share that is found is not judged then.",
)
@click.option("--redis-url", envvar="REACH_REDIS_URL", show_envvar=True, metavar="URL",
              help="Use this server, in an env of its own, and start none.")  # fmt: skip
def main(texts: tuple[str, ...], path: Path | None, count: int | None, redis_url: str | None) -> None:
    """A help desk for the Python standard library, on real processes.

    Without options 200 questions go through three agents each, one agent and one router are killed half-way, and everything is checked.
    Exit status: 0, or 1 when a promise was broken or fewer than 90 % of the questions were understood.
    """
    signal.signal(signal.SIGTERM, _terminated)
    screen = Screen()
    try:
        own = [Asked(f"ask-{number}", text) for number, text in enumerate(texts, 1)]
        own += questions.read(path) if path else []
    except (ValueError, UnicodeDecodeError) as error:
        raise click.UsageError(f"{path}: {error}") from error
    if path and not own:
        raise click.UsageError(f"{path} has no question")
    shipped = questions.read(questions.SHIPPED)
    try:
        with set_up(redis_url) as stage:
            if own:
                wrong = asyncio.run(answer(stage, screen, own))
            else:
                wrong = asyncio.run(play(stage, screen, shipped[:count], whole=count is None))
    except* (StageError, ReachError) as group:
        wrong = [str(error) for error in _single(group)]
    for sentence in wrong:
        click.echo(f"FAILED: {sentence}", err=True)
    if wrong:
        sys.exit(FAILED)


def _single(group: BaseExceptionGroup[Exception]) -> Iterator[Exception]:
    for error in group.exceptions:
        if isinstance(error, BaseExceptionGroup):
            yield from _single(error)
        else:
            yield error


def _terminated(_number: int, _frame: FrameType | None) -> None:
    sys.exit(TERMINATED)


if __name__ == "__main__":
    try:
        status = main(prog_name="reach demo", standalone_mode=False)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except click.Abort:
        sys.exit(INTERRUPTED)
    sys.exit(status)
