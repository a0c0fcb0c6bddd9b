"""What reach says in the log, down to the least of it, for a handler of a test."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeVar

H = TypeVar("H", bound=logging.Handler)


@contextmanager
def told_everything(handler: H) -> Iterator[H]:
    """The handler hears all levels of all of reach's loggers; afterwards the level is as before."""
    logger = logging.getLogger("reach")
    before = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)
    try:
        yield handler
    finally:
        logger.setLevel(before)
        logger.removeHandler(handler)
