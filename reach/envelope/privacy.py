"""What hop records keep of contents: the setting `privacy` of an env. Pure.

`hash, weather.query=keep, payments.*=drop`: a word for everything, then one for single schemas (`payments.refund.v2`), for families of
them (`payments.refund`) or for all that begin alike (`payments.*`). The nearest one holds; of several schemas, the strictest.
"""

from collections.abc import Iterable, Mapping
from typing import Literal, get_args

import msgspec

from reach import ids
from reach.envelope.families import family_of

Keeping = Literal["keep", "hash", "drop"]
KEEPINGS: tuple[Keeping, ...] = get_args(Keeping)
MAX_PRIVACY_CHARS = 8_192
MAX_RULES = 200
#: More of a content than this is hashed, whatever else holds.
MAX_KEPT_BYTES = 65_536
#: On the machine of a developer everything can be looked at; where the content may be somebody's, nothing can until somebody says so.
OPEN_ENV = "dev"


class Privacy(msgspec.Struct, frozen=True):
    """What is kept of which schema. `rules`: by the name of a schema, of a family, or by what they begin with (`payments.`)."""

    default: Keeping
    rules: Mapping[str, Keeping] = {}
    max_bytes: int = MAX_KEPT_BYTES

    def of(self, schemas: Iterable[str]) -> Keeping:
        """What is kept of a content of these schemas: the strictest of what holds for each; the default where there is none."""
        found = {self._of(schema) for schema in schemas if schema} or {self.default}
        return max(found, key=KEEPINGS.index)

    def strictest(self) -> Keeping:
        """What is kept of a content of which nobody can say what it is."""
        return max((self.default, *self.rules.values()), key=KEEPINGS.index)

    def _of(self, schema: str) -> Keeping:
        if not self.rules:
            return self.default
        near = self.rules.get(schema) or self.rules.get(family_of(schema))
        start = schema.rfind(".")
        while near is None and start >= 0:
            near = self.rules.get(schema[: start + 1])
            start = schema.rfind(".", 0, start)
        return near or self.default


def privacy_of(meta: Mapping[str, str], env: str) -> Privacy:
    """What these fields of `meta` say. Nothing: all is kept in `dev`, and hashed anywhere else. What cannot be read: all is dropped."""
    most = ids.count_of(meta.get("max_kept_bytes") or "")
    max_bytes = MAX_KEPT_BYTES if most is None else most
    text = meta.get("privacy")
    if text is None:
        return Privacy("keep" if env == OPEN_ENV else "hash", max_bytes=max_bytes)
    try:
        return msgspec.structs.replace(read_privacy(text), max_bytes=max_bytes)
    except ValueError:
        return Privacy("drop", max_bytes=max_bytes)


def read_privacy(text: str) -> Privacy:
    """What a text says.

    Raises:
        ValueError: It cannot be read; with all that is wrong at once.
    """
    first, *rest = [word.strip() for word in text[: MAX_PRIVACY_CHARS + 1].split(",")]
    wrong: list[str] = []
    if len(text) > MAX_PRIVACY_CHARS:
        wrong.append(f"{len(text)} characters, at most {MAX_PRIVACY_CHARS}")
    if len(rest) > MAX_RULES:
        wrong.append(f"{len(rest)} schemas, at most {MAX_RULES}")
    default = _keeping(first, "it begins with what holds for all schemas", wrong)
    rules: dict[str, Keeping] = {}
    for word in rest[:MAX_RULES]:
        name, _, told = (part.strip() for part in word.partition("="))
        keeping = _keeping(told, f"{name!r:.60}", wrong)
        start = name.removesuffix("*")
        if not ids.is_token(start.removesuffix(".") if name.endswith(".*") else name):
            wrong.append(f"{name!r:.60}: no schema, family, or beginning such as payments.*")
        elif start in rules:
            wrong.append(f"{name!r:.60}: stands there twice")
        rules[start] = keeping
    if wrong:
        raise ValueError("; ".join(wrong[:20]))
    return Privacy(default, rules)


def with_rule(text: str | None, env: str, name: str, keeping: Keeping | None) -> str:
    """The text of the setting, where `name` (a schema, a family, or a beginning such as `payments.*`) has this rule; None = no more.

    Raises:
        ValueError: `name` is none of these, or what is set cannot be read.
    """
    said = privacy_of({}, env) if text is None else read_privacy(text)
    rules = {f"{start}*" if start.endswith(".") else start: kept for start, kept in said.rules.items()}
    rules.pop(name, None)
    if keeping is not None:
        rules[name] = keeping
    made = ",".join([said.default, *(f"{start}={kept}" for start, kept in rules.items())])
    if len(read_privacy(made).rules) != len(rules):
        raise ValueError(f"{name!r:.60}: no schema, family, or beginning such as payments.*")
    return made


def problem_of(text: str) -> str | None:
    """What is wrong with the text of the setting; None: nothing."""
    try:
        read_privacy(text)
    except ValueError as error:
        return str(error)
    return None


def _keeping(word: str, what: str, wrong: list[str]) -> Keeping:
    for keeping in KEEPINGS:
        if word == keeping:
            return keeping
    wrong.append(f"{what}: {word!r:.20} is none of {', '.join(KEEPINGS)}")
    return "drop"
