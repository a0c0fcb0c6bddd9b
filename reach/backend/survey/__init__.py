"""A look at one env on one server that changes nothing in it (steps are loaded into the server's cache): what `reach doctor` judges."""

from reach.backend.survey.facts import (
    AgentRecords,
    Consumer,
    KeyFacts,
    Partition,
    ServerFacts,
    StreamFacts,
    Stuck,
    Survey,
)
from reach.backend.survey.surveyor import survey

__all__ = [
    "AgentRecords",
    "Consumer",
    "KeyFacts",
    "Partition",
    "ServerFacts",
    "StreamFacts",
    "Stuck",
    "Survey",
    "survey",
]
