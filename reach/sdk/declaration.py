"""What an agent declares of itself, from what it was given and from its handlers. Pure."""

from collections.abc import Iterable

import msgspec

from reach.envelope.declarations import label_of
from reach.envelope.registration import Accept, Capability, Registration
from reach.sdk.deriving import declared_schema, tell_undeclared
from reach.sdk.handlers import Handler
from reach.settings import Settings, safe_url

#: A registration has at most 1 MiB; so much of it may be the JSON Schemas of the handlers' types.
MAX_SCHEMAS_BYTES = 1 << 19


def registration_of(
    own: Registration, declared: Registration, handlers: Iterable[Handler], description: str
) -> Registration:
    """What is declared, with what is the instance's own: its ids, its env, the partitions that it reads; and the label of it."""
    handlers = tuple(handlers)
    made = msgspec.structs.replace(
        declared,
        agent_id=own.agent_id,
        instance_id=own.instance_id,
        node_id=own.node_id,
        env=own.env,
        partitions=own.partitions,
        capabilities=(*declared.capabilities, *_capabilities(handlers, description)),
        accepts=_accepts(handlers),
    )
    return msgspec.structs.replace(made, declares=label_of(made))


def _capabilities(handlers: Iterable[Handler], description: str) -> Iterable[Capability]:
    seen = set()
    room = MAX_SCHEMAS_BYTES
    for handler in handlers:
        if handler.capability is None or (handler.capability, handler.schema) in seen:
            continue
        seen.add((handler.capability, handler.schema))
        sides = [declared_schema(handler.schema, handler.body_kind)]
        sides.append(declared_schema(handler.output_schema, handler.output_kind))
        size = len(msgspec.json.encode(sides))
        room -= size
        if room < 0:  # names only: what is over is for an admin to store
            sides, room = [handler.schema, handler.output_schema], room + size
            tell_undeclared(handler.schema, f"the schemas of one registration have at most {MAX_SCHEMAS_BYTES} bytes")
        yield Capability(
            name=handler.capability,
            description=handler.description or description,
            examples=handler.examples,
            input_schema=sides[0],
            output_schema=sides[1],
            max_process_ms=handler.max_process_ms,
            cost=handler.cost,
        )


def _accepts(handlers: Iterable[Handler]) -> tuple[Accept, ...]:
    """Every type that there is a handler for; with schemas only where each of its handlers names one."""
    by_type: dict[str, set[str | None]] = {}
    for handler in handlers:
        by_type.setdefault(handler.type, set()).add(handler.schema)
    return tuple(
        Accept(type=kind, schemas=() if None in schemas else tuple(sorted(s for s in schemas if s is not None)))
        for kind, schemas in sorted(by_type.items())
    )


def served(declared: Registration, told: Settings) -> dict[str, object]:
    """What the log says of an instance that begins to serve."""
    return {
        "agent": declared.agent_id,
        "instance": declared.instance_id,
        "env": declared.env,
        "url": safe_url(told.redis_url),
        "capabilities": ",".join(sorted({capability.name for capability in declared.capabilities})),
    }
