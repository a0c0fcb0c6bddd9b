"""What an agent or a capability accepts: for senders who ask before they send."""

from typing import Any

import msgspec

from reach.backend.port import Backend
from reach.envelope.json_schema import Schema, read_schema
from reach.envelope.registration import Capability
from reach.registry.routes import read_index
from reach.routing.agents import Agent
from reach.routing.index import CapabilityIndex
from reach.routing.pattern import Pattern, resolve_bare

#: So many JSON Schemas are looked up at once.
PAGE = 100


class Offer(msgspec.Struct, frozen=True, omit_defaults=True):
    """One thing that an agent can do. A schema is a name (whose JSON Schema, if stored, stands in `Accepts.schemas`), or a JSON Schema."""

    name: str
    description: str = ""
    examples: tuple[Any, ...] = ()
    input_schema: str | Schema | None = None
    output_schema: str | Schema | None = None
    max_process_ms: int | None = None
    cost: float | None = None

    @property
    def max_process(self) -> float | None:
        """How long a run may be without a sign of life, in seconds."""
        return None if self.max_process_ms is None else self.max_process_ms / 1000


class Acceptor(msgspec.Struct, frozen=True):
    """One agent that answers the pattern.

    Attributes:
        agent_id: Who.
        state: ready, busy, draining, not_ready or silent.
        accepts: Message type -> the schemas that it takes, None = any; those that its own read as well stand in `reads`.
        reads: Schema -> the other schemas of which it gets bodies, since its own is compatible with them.
        offers: What of it the pattern asks for; of an agent or a group all that it can do.
    """

    agent_id: str
    state: str
    accepts: dict[str, list[str] | None]
    reads: dict[str, list[str]]
    offers: list[Offer]


class Accepts(msgspec.Struct, frozen=True):
    """Who answers a pattern, and what they take. `schemas`: the JSON Schemas that are stored, by name."""

    pattern: str
    agents: list[Acceptor]
    schemas: dict[str, Schema]


async def accepted_by(backend: Backend, pattern: str) -> Accepts:
    """What a pattern, or a bare name as senders write it, accepts now. Reads the whole registry: it is no step of sending.

    Raises:
        EnvelopeError: The pattern is none.
        BackendError: The registry cannot be read.
    """
    index, now_ms = await read_index(backend)
    asked = resolve_bare(pattern, index)
    since_ms = index.alive_since_ms(now_ms)
    agents = [_acceptor(agent, asked, index, since_ms) for agent in index.match(asked)]
    names = sorted({name for agent in agents for name in _names(agent)})
    schemas: dict[str, Schema] = {}
    for at in range(0, len(names), PAGE):
        for name, data in (await backend.read_schemas(names[at : at + PAGE])).items():
            schema, faults = read_schema(data)
            if not faults:  # anybody may have written there
                schemas[name] = schema
    return Accepts(asked.text, agents, schemas)


def _acceptor(agent: Agent, asked: Pattern, index: CapabilityIndex, since_ms: int) -> Acceptor:
    terms = index.terms_of(asked)
    offers = [
        _offer(capability)
        for capability in agent.declared.capabilities
        if not terms or any(term.matches(capability.name) for term in terms)
    ]
    accepts = {kind: None if names is None else sorted(names) for kind, names in sorted(agent.accepts.items())}
    own = {name for names in accepts.values() for name in names or ()}
    return Acceptor(agent.agent_id, agent.state(since_ms), accepts, index.schemas.read_by(own), offers)


def _offer(capability: Capability) -> Offer:
    return Offer(**{name: getattr(capability, name) for name in Offer.__struct_fields__})


def _names(agent: Acceptor) -> list[str]:
    sides = [side for offer in agent.offers for side in (offer.input_schema, offer.output_schema)]
    return [
        *(side for side in sides if isinstance(side, str)),
        *(name for names in agent.accepts.values() for name in names or ()),
        *agent.reads,
    ]
