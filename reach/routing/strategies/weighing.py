"""How a strategy that draws in proportion weighs one agent by itself: among thousands one is drawn without weighing the others."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from reach.envelope.registration import Beat
from reach.routing.agents import Agent
from reach.routing.filters import View
from reach.routing.strategies.port import Memory


class Usual(NamedTuple):
    """What stands in for the history of a newcomer: the median of its peers."""

    success_rate: float
    avg_response_ms: float


#: Of peers none of which has answered anything yet.
UNKNOWN = Usual(1.0, 1_000.0)


class Weight(NamedTuple):
    """What one agent weighs now. `waits`: somebody would wait behind others there; it is out of the draw while anybody could begin."""

    score: float
    waits: bool = False


class Weighing(NamedTuple):
    """What a strategy says of one agent.

    Attributes:
        most: What it can weigh until its next beat, whatever is sent and whoever of its instances falls silent; without its own weight,
            by the beats of those that take work, of which there is one.
        now: What it weighs now, as the strategy itself would weigh it among the others; never more than `most` times its own weight.
        most_of_usual: By what `most` of who has no history is multiplied: what the usual one can weigh.
        chosen: Hears who was.
    """

    most: Callable[[Sequence[Beat]], float]
    now: Callable[[Agent, View, Memory, Usual], Weight]
    most_of_usual: Callable[[Usual], float]
    chosen: Callable[[Agent, View, Memory], None]
