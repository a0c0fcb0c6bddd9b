"""What a schema may cost whoever validates by it: a recursion may double the work with every level of a body. Pure."""

from collections import Counter
from collections.abc import Iterator

from reach.envelope.json_schema import HERE, Node


def branching(node: Node) -> int:
    """How many times over a validator may have to look at one part of a body, at each level of a recursion; 1: once."""
    counted = Counter(_recursions(node))
    return max(counted.values(), default=1)


def _recursions(node: Node) -> Iterator[tuple[str, ...]]:
    """Of each reference back: the parts of the value that lead to it."""
    left: list[tuple[Node, tuple[str, ...]]] = [(node, ())]
    while left:
        at, path = left.pop()
        if isinstance(at, bool):
            continue
        for name, value in at.items():
            if name == "$ref":
                yield path
            elif name in HERE:
                inner = value.values() if name == "dependentSchemas" else value if isinstance(value, list) else [value]
                left += [(one, path) for one in inner]
            elif name in ("properties", "patternProperties"):
                left += [(one, (*path, f".{key}")) for key, one in value.items()]
            elif name == "prefixItems":
                left += [(one, (*path, f"[{i}]")) for i, one in enumerate(value)]
            elif isinstance(value, dict):
                left.append((value, (*path, name)))
