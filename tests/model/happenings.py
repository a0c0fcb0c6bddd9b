"""Everything that may happen next in a scenario: who acts, what goes wrong, and when it is over."""

from tests.model.agents import Agents
from tests.model.callers import Callers, Clock
from tests.model.keys import Keys
from tests.model.partition import Setting
from tests.model.routers import Routers
from tests.model.scene import Steps
from tests.model.world import INGRESS, OPEN, World


class Happenings:
    """All who act."""

    def __init__(self, setting: Setting) -> None:
        self._all = [kind(setting) for kind in (Callers, Routers, Agents, Clock, Keys)]

    def of(self, world: World) -> Steps:
        for somebody in self._all:
            yield from somebody.of(world)


def is_over(world: World) -> bool:
    """Everybody who has sent has been answered, and nothing is open."""
    legs = (1 << len(world.ended)) - 1
    if not world.callers[0].sent or any(leg.state in OPEN for leg in world.legs):
        return False
    if any(entry.door == INGRESS for entry in world.doors):
        return False
    # Whose mailbox is spoilt reads the record.
    return all(
        not caller.sent or caller.heard & legs == legs or (world.spoilt and k == 0)
        for k, caller in enumerate(world.callers)
    )
