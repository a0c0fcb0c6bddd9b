"""Who may call whom: one rule, as it stands in the hash `rules`, and the grammar of what it names. Pure."""

import re
from typing import Literal

import msgspec

from reach import ids

Effect = Literal["allow", "deny"]

#: What a rule may name beside `*` and ids: members of a group, and of a target also who offers a capability.
SOURCE_KINDS, TARGET_KINDS = ("agent_id", "group"), ("agent_id", "capability", "group")

_GLOB = re.compile(r"[A-Za-z0-9._*-]{1,128}").fullmatch


class CallRule(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """Lets those whom `source` names call what `target` names, or forbids it. In both `*` stands for any text, also for none.

    Attributes:
        source: `*`, `shop-*` or `agent_id:shop-*` (by agent_id, or by the name of all replicas), `group:billing`.
        target: `*`, `agent_id:refund-*`, `group:billing`, `capability:refund.*`.
        effect: allow or deny.
        type: Only messages of this type; None: of any.
    """

    source: str
    target: str
    effect: Effect
    type: str | None = None


def source_problem(text: str) -> str | None:
    """Why this can be no source; None: it can."""
    if named(text, SOURCE_KINDS) is not None:
        return None
    return f"{text[:64]!r} is no source: say an agent_id or name (shop, shop-*), group:billing, or * for everybody"


def target_problem(text: str) -> str | None:
    """Why this can be no target; None: it can."""
    kind, _, rest = text.partition(":")
    if kind == "capability" and "+" in rest:
        return "a rule is about one capability: write a rule for each instead of joining them by +"
    found = named(text, TARGET_KINDS)
    if found is None or (not found[0] and text != "*"):
        return f"{text[:64]!r} is no target: say agent_id:, group: or capability: and a name (capability:refund.*), or * for everything"
    if kind == "capability" and rest != rest.lower():
        return f"capabilities are lower case: capability:{rest.lower()[:64]}"
    return None


def type_problem(text: str) -> str | None:
    """Why this can be no type; None: it can."""
    return (
        None if ids.is_token(text) else f"{text[:64]!r} is no message type: dotted lower-case tokens, such as request"
    )


def named(text: str, kinds: tuple[str, ...]) -> tuple[str, str] | None:
    """Kind ("" where none is said) and glob of a source or target; None: it is none."""
    kind, colon, glob = text.partition(":")
    if not colon:
        kind, glob = "", text
    return (kind, glob) if (not colon or kind in kinds) and _GLOB(glob) is not None else None


def glob_matcher(glob: str) -> re.Pattern[str]:
    """What says, by `fullmatch`, whether a name is meant. No glob makes it slow: nothing that a part has matched is tried anew."""
    first, *others = (re.escape(part) for part in re.split(r"\*+", glob))
    if not others:
        return re.compile(first)
    *middle, last = others
    return re.compile(first + "".join(f"(?>.*?{part})" for part in middle) + ".*" + last)
