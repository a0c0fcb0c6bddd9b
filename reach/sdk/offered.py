"""What is said of a capability where its handler is given: with the decorator, or to an agent that runs."""

from collections.abc import Iterable
from typing import Any, TypedDict

from reach.sdk.durations import Duration, maybe_ms
from reach.sdk.handlers import Function, Handler, read_handler


class Offered(TypedDict, total=False):
    """What `agent.capability` and `agent.add_capability` take by name, besides the capability.

    schema: the schema that it takes; two schemas of one capability are two handlers side by side. Where the body is a Struct, dataclass,
    TypedDict or pydantic model, its JSON Schema is stored by this name, and must stay compatible (docs/schemas.md).
    type: the message type, "request" by default.
    description: for people and for ranking; the docstring's first line where absent.
    examples: of what can be asked.
    max_process: as the agent's, for this capability. cost: the same.
    output_schema: the name of what it returns, told to those who ask; with `Agent(validate=True)` what it returns is judged by it.
    """

    schema: str | None
    type: str
    description: str
    examples: Iterable[Any]
    max_process: Duration | None
    output_schema: str | None
    cost: float | None


def check_offered(offered: Offered) -> None:
    """Raises TypeError for an option that there is not."""
    unknown = sorted(offered.keys() - Offered.__annotations__.keys())
    if unknown:
        there = ", ".join(Offered.__annotations__)
        raise TypeError(f"a capability takes no {unknown[0]!r}: {there} are what it may have")


def handler_of(name: str, function: Function, offered: Offered) -> Handler:
    """The handler of a capability.

    Raises:
        TypeError: There is no such option, or the function cannot be a handler.
        ValueError: A name breaks the grammar.
    """
    check_offered(offered)
    return read_handler(
        function,
        type=offered.get("type", "request"),
        capability=name,
        schema=offered.get("schema"),
        description=offered.get("description", ""),
        examples=offered.get("examples", ()),
        max_process_ms=maybe_ms(offered.get("max_process"), "max_process"),
        output_schema=offered.get("output_schema"),
        cost=offered.get("cost"),
    )
