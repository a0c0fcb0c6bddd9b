"""Builders for the routing tests: agents that have beaten, messages, legs."""

from random import Random

import msgspec

from reach.envelope import records
from reach.envelope.ledger import Leg, LegState
from reach.envelope.registration import Accept, Beat, Capability, Registration
from reach.routing.decide import Chooser
from reach.routing.index import CapabilityIndex
from reach.routing.message import Message
from reach.routing.pattern import parse
from reach.routing.steps import Choice, Finish, Step
from reach.routing.strategies import Memory

NOW = 1_000_000_000
DRAINING = b'{"state":"draining"}'


def stored(agent_id: str, *capabilities: str, **declared: object) -> bytes:
    """A value of the hash `agents`."""
    fields: dict[str, object] = {
        "capabilities": tuple(Capability(name=name) for name in capabilities),
        **declared,
    }
    registration = Registration(agent_id=agent_id, instance_id=f"{agent_id}.1", **fields)  # type: ignore[arg-type]
    data: dict[str, object] = msgspec.json.decode(records.encode_registration(registration))
    return msgspec.json.encode({**data, "v": 1})


def add(
    index: CapabilityIndex,
    agent_id: str,
    *capabilities: str,
    beat: Beat | None = Beat(),  # noqa: B008 - frozen
    at_ms: int = NOW,
    **declared: object,
) -> None:
    """Register an agent and let it beat (`beat` None: it has not yet)."""
    index.apply("agent", agent_id, stored(agent_id, *capabilities, **declared))
    if beat is not None:
        assert index.beat(agent_id, f"{agent_id}.1", at_ms, records.encode_beat(beat))


def chooser(index: CapabilityIndex | None = None, seed: int = 1) -> Chooser:
    """Decisions over this index; the same seed makes the same draws."""
    return Chooser(index=index or CapabilityIndex(), rng=Random(seed), memory=Memory())


def message(pattern: str = "capability:work", /, **fields: object) -> Message:
    """A message accepted at NOW with the default timeouts."""
    values: dict[str, object] = {
        "start_at_ms": NOW,
        "first_at_ms": NOW + 30_000,
        "total_at_ms": NOW + 30_000,
        "network_ms": 3_000,
        **fields,
    }
    return Message(pattern=parse(pattern), **values)  # type: ignore[arg-type]


def leg(state: LegState, **fields: object) -> Leg:
    """A leg in this state."""
    return Leg(state=state, **fields)  # type: ignore[arg-type]


def queued(**fields: object) -> Leg:
    """A leg that lies in the inbox of a."""
    return leg(LegState.QUEUED, agent="a", hand="1-1", **fields)


def three() -> CapabilityIndex:
    """The agents a, b and c, which do the work and are ready."""
    made = CapabilityIndex()
    for agent_id in ("a", "b", "c"):
        add(made, agent_id, "work")
    return made


def silence(index: CapabilityIndex, *agents: str) -> None:
    """They drain from now on."""
    for agent_id in agents:
        index.apply("state", f"{agent_id}/{agent_id}.1", DRAINING, NOW)


def step(choice: Choice) -> Step:
    """The only step of this decision."""
    assert len(choice.steps) == 1
    return choice.steps[0]


def finish(choice: Choice) -> Finish:
    """The same, where it is an end."""
    found = step(choice)
    assert isinstance(found, Finish)
    return found


ACCEPT_ONE = (Accept(type="request", schemas=("refund.request.v1",)),)
