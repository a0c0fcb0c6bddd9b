"""Whether a backend is as the model has it: the ledger, the inboxes, the mailboxes."""

from typing import Any

from reach.backend.keys import GROUP_AGENT
from reach.envelope.ledger import Leg as RealLeg
from tests.contract.drive import Drive, new_id
from tests.contract.places import KEYS
from tests.model.partition import Setting
from tests.model.world import DEAD, NOBODY, OPEN, PLAIN, Leg, World

FOR_ONE_CALLER = {"envelope.id_conflict", "overloaded"}


class Likeness:
    """A message on a backend. `hands` and `people`: what the numbers of the model stand for there."""

    def __init__(self, drive: Drive, setting: Setting) -> None:
        self.drive, self.setting = drive, setting
        self.msg_id = new_id()
        self.hands: dict[int, str] = {0: "0"}
        self.people: dict[int, str] = {NOBODY: "", PLAIN: "plain"}
        self.count = 0
        self.heard = [0] * len(setting.sends)
        self.told: list[str] = []

    @staticmethod
    def _agent(agent: int) -> str:
        return f"agent{agent}" if agent >= 0 else ""

    def _name(self, instance: int) -> str:
        if instance not in self.people:
            self.count += 1
            self.people[instance] = f"i{self.count}"
        return self.people[instance]

    def _story(self, what: str) -> str:
        return f"{what}\n" + "\n".join(f"  {k}. {line}" for k, line in enumerate(self.told, 1))

    async def _compare(self, world: World) -> None:
        record = await self.drive.backend.inspect(0, self.msg_id)
        head = world.head
        assert (record is not None) == (head is not None), self._story("a record, or none")
        if record is not None and head is not None:
            assert bool(record.head.tombstones) == bool(head.tombs), self._story("tombstones differ")
            if not head.tombs:
                assert record.head.round == head.round, self._story("rounds differ")
                assert record.head.stopped == head.stopped, self._story("the cancelled rounds differ")
                assert len(record.head.mailboxes) == len(head.boxes), self._story("reply_to differ")
                for n, leg in enumerate(world.legs):
                    self._compare_leg(n, leg, record.legs[n])
        there = await self.drive.place.type_of(KEYS.envelope(0, self.msg_id)) == "string"
        assert there == world.env, self._story("env differs")
        assert (self.msg_id in await self.drive.place.due()) == world.armed, self._story("due differs")
        for agent in range(self.setting.agents):
            await self._compare_inbox(world, agent)
        await self._compare_mail(world)

    def _compare_leg(self, n: int, leg: Leg, real: RealLeg) -> None:
        self.hands.setdefault(leg.hand, real.hand)
        if leg.instance not in {DEAD, NOBODY}:
            self.people.setdefault(leg.instance, real.instance)
        wanted: dict[str, Any] = {
            "state": leg.state,
            "hand": self.hands[leg.hand],
            "attempt": leg.attempt,
            "moves": leg.moves,
            "settled": leg.settled,
            "ended": leg.state not in OPEN,
            "retryable": leg.retryable,
            "best": self._agent(leg.best),
            "answer of": self._agent(leg.by),
            "question": self.hands.get(leg.question, "forgotten") if leg.question else "",
        }
        found: dict[str, Any] = {
            "state": real.state.value,
            "hand": real.hand,
            "attempt": real.attempt,
            "moves": real.moves,
            "settled": real.settled,
            "ended": real.finished_at_ms > 0,
            "retryable": real.finished_at_ms > 0 and real.status == "retryable",
            "best": real.best.agent if real.best is not None else "",
            "answer of": real.by_agent,
            "question": real.question_hand,
        }
        if leg.instance not in {DEAD, NOBODY}:
            wanted["instance"], found["instance"] = self.people[leg.instance], real.instance
        assert found == wanted, self._story(f"leg {n} is {found}, not {wanted}")

    async def _compare_inbox(self, world: World, agent: int) -> None:
        key = KEYS.inbox(0, f"agent{agent}", "normal")
        is_gone = await self.drive.place.type_of(key) != "stream"
        assert is_gone == world.gone[agent], self._story(f"the inbox of agent {agent}: {is_gone}")
        if is_gone:
            return
        letters = [letter for letter in world.inbox if letter.agent == agent]
        ids = sorted(entry for entry, _ in await self.drive.place.entries(key))
        assert ids == sorted(self.hands[letter.hand] for letter in letters), self._story(f"inbox {agent} holds {ids}")
        pending = {row.id: row.consumer for row in await self.drive.place.pending(key, GROUP_AGENT)}
        for letter in letters:
            hand = self.hands[letter.hand]
            assert (hand in pending) == (letter.instance != NOBODY), self._story(f"pending are {pending}")
            if letter.instance not in {NOBODY, DEAD}:
                assert pending[hand] == self._name(letter.instance), self._story(f"pending are {pending}")

    async def _compare_mail(self, world: World) -> None:
        for caller, state in enumerate(world.callers):
            for receipt in await self.drive.receipts(f"box{caller}"):
                is_whole = receipt["code"] in FOR_ONE_CALLER
                self.heard[caller] |= (1 << self.setting.legs) - 1 if is_whole else 1 << receipt["leg"]
            assert self.heard[caller] == state.heard, self._story(f"caller {caller} has heard {self.heard[caller]:b}")
