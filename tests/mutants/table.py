"""All mutants."""

from tests.mutants import (
    bounds,
    choosing,
    circuits,
    conversations,
    effects,
    fallback,
    instances,
    lines,
    lua_agents,
    lua_routers,
    memory_agents,
    memory_routers,
    python,
    questions,
    registration,
    schemas,
    silence,
    stages,
)
from tests.mutants.mutant import Mutant

MUTANTS: tuple[Mutant, ...] = (
    *lua_routers.MUTANTS,
    *lua_agents.MUTANTS,
    *memory_routers.MUTANTS,
    *memory_agents.MUTANTS,
    *lines.MUTANTS,
    *python.MUTANTS,
    *conversations.MUTANTS,
    *effects.MUTANTS,
    *circuits.MUTANTS,
    *questions.MUTANTS,
    *registration.MUTANTS,
    *bounds.MUTANTS,
    *choosing.MUTANTS,
    *silence.MUTANTS,
    *schemas.MUTANTS,
    *fallback.MUTANTS,
    *stages.MUTANTS,
    *instances.MUTANTS,
)
