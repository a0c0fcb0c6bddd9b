"""Walks of the model, carried out on a real backend, step by step: after each, the ledger, the inboxes and the mailboxes must agree.

This is what keeps the model true. Time is moved only where the model says that it passes; whoever holds work and lives renews it meanwhile.
"""

import json
from random import Random
from typing import NamedTuple, Self

import msgspec

from reach.backend.keys import GROUP_AGENT
from reach.backend.steps import Parking, Settlement, WorkEntry
from reach.backend.steps import Plan as RealPlan
from reach.envelope.ledger import LegState, ends_at_ms
from tests.contract.drive import Drive, retryable, success
from tests.contract.places import KEYS, Place, Snapshot
from tests.model.ledger import Ledger
from tests.model.likeness import Likeness
from tests.model.partition import Setting
from tests.model.scene import Call, Step
from tests.model.world import (
    AGAIN,
    GUESS,
    HANDED_BACK,
    INGRESS,
    NOBODY,
    PLAIN,
    RECEIPTS,
    RETRYABLE,
    SUCCESS,
    TTL_OVER,
    UNSURE,
    WAITING,
    Decision,
    Entry,
    Letter,
    Plan,
    Work,
    World,
    names_of,
)

LONG_MS = 1_000_000_000
TTL_MS, WAIT_MS, OPEN_MS = 100_000_000, 1_000_000, 600_000_000
ANSWERS = {
    SUCCESS: success(),
    RETRYABLE: retryable(),
    HANDED_BACK: retryable("handler.retry"),
    UNSURE: success(confidence="0.4"),
    GUESS: success(confidence="0.2"),
}
WANTED = 0.8
RARELY = 0.8


def can_follow(setting: Setting, world: World, step: Step) -> bool:
    """The model looks at one leg at a time, `due` at all that are due; and no wait is longer than ttl here."""
    what = {call[0] for call in step.calls}
    waits = any(leg.state == WAITING and not leg.over for leg in world.legs)
    return not (setting.broadcast and "due" in what) and not (waits and "pass" in what)


class _Kept(NamedTuple):
    """What survives a restart: of the place, and of what the replay knows of it."""

    stored: Snapshot
    waiting: list[WorkEntry]
    heard: list[int]
    seen: dict[str, str]


class Replay(Likeness):
    """One walk on one backend. `hands` and `people`: what the numbers of the model stand for there."""

    def __init__(self, drive: Drive, ledger: Ledger) -> None:
        super().__init__(drive, ledger.setting)
        self.ledger = ledger
        self.world: World = ledger.start
        self.waiting: list[WorkEntry] = []  # entries that are pending at the doors
        self.gone: list[WorkEntry] = []
        self.kept: _Kept | None = None
        self.moment_ms = 0

    @classmethod
    async def start(cls, place: Place, ledger: Ledger) -> Self:
        drive = await Drive.start(place)
        replay = cls(drive, ledger)
        for caller in range(len(ledger.setting.sends)):
            await drive.backend.keep_mailbox(f"box{caller}", [0], LONG_MS * 10)
        for agent in range(ledger.setting.agents):
            await drive.backend.open_inbox(0, f"agent{agent}")
        await drive.past_grace()
        return replay

    async def walk(self, rng: Random, steps: int) -> None:
        """Go anywhere the model may go, at random, and compare after every step."""
        for _ in range(steps):
            moves = [step for step in self.ledger.moves(self.world) if can_follow(self.setting, self.world, step)]
            if not moves:
                return
            chosen = rng.choice(moves)
            if ("restart",) in chosen.calls and rng.random() < RARELY:  # so that something is lost by it
                chosen = rng.choice(moves)
            await self.follow(chosen)

    async def follow(self, step: Step) -> None:
        self.told.append(step.name)
        await self._next_moment()
        await self.drive.place.delete(KEYS.health(0))  # circuits are a model of their own (tests/model/circuit.py)
        for call in step.calls:
            await self._carry_out(call)
        self.waiting += await self._new_work(step)
        await self._compare(step.world)
        hands, people = names_of(step.world)
        self.hands = {new: self.hands[old] for old, new in hands.items()}
        self.people = {new: self._name(old) for old, new in people.items()} | {NOBODY: "", PLAIN: "plain"}
        self.world = self.ledger.next(step)

    async def _new_work(self, step: Step) -> list[WorkEntry]:
        """What waits at the doors since this step. What is told to be recorded is compared, and finished: no leg depends on it."""
        found = await self.drive.work()
        told = [entry for entry in found if b"t" in entry.fields]
        ends = sorted(int(entry.fields[b"l"]) for entry in told if json.loads(entry.fields[b"t"])["ended"])
        assert (ends, len(told)) == (sorted(step.untold), len(ends)), self._story(f"told to be recorded: {told}")
        await self.drive.backend.finish_work(0, told)
        return [entry for entry in found if entry not in told]

    async def _next_moment(self) -> None:
        """Ids are unique within one inbox only; to the model two hands are never the same."""
        now_ms = await self.drive.backend.now_ms()
        if now_ms == self.moment_ms:
            await self.drive.place.pass_time(1)
        self.moment_ms = now_ms

    # ---------------------------------------------------------------- doing
    async def _carry_out(self, call: Call) -> None:
        what, *rest = call
        await getattr(self, "_" + what.replace(" ", "_").replace("'", ""))(*rest)

    async def _submit(self, caller: int) -> None:
        entry = await self.drive.backend.submit(0, "normal", f'{{"from":{caller}}}'.encode())
        assert entry

    async def _finish(self, entry: Entry) -> None:
        await self.drive.backend.finish_work(0, [self._pick(entry, there=True)])

    async def _lose(self, entry: Entry) -> None:
        found = self._peek(entry)
        self.waiting.remove(found)
        await self.drive.place.remove(found.stream, found.id)

    async def _again(self, n: int, hand: int) -> None:
        fields = {"m": self.msg_id.encode(), "l": str(n).encode(), "h": self._hand(hand).encode()}
        await self.drive.place.append(KEYS.again(0), fields)

    async def _receipts(self, n: int, hand: int, outcome: int) -> None:
        fields = {
            "m": self.msg_id.encode(),
            "l": str(n).encode(),
            "h": self._hand(hand).encode(),
            "o": str(outcome).encode(),
        }
        await self.drive.place.append(KEYS.receipts(0), fields)

    async def _route(self, decision: Decision, there: bool, verdict: str, *no_ack: str) -> None:
        acked = there and verdict not in {"gone", "changed"} and not no_ack
        entry = self._pick(decision, there=acked) if acked or not there else self._peek(decision)
        if decision.door == RECEIPTS:
            n, hand, outcome, agent = decision.about
            said = await self._settle_as(n, self._hand(hand), f"agent{agent}", "", outcome)
            if acked:
                await self.drive.backend.finish_work(0, [entry])
        elif decision.door == INGRESS:
            told = self.setting.sends[decision.about[0]]
            _, result = await self.drive.send(
                *(self._plan(plan) for plan in decision.plans),
                msg_id=self.msg_id,
                entry=entry,
                reply_to=f"box{decision.about[0]}",
                sender=f"sender{told.sender}",
                fingerprint=f"{told.content:016}",
                round=told.round,
                scope="all" if self.setting.broadcast else "one",
                ttl_ms=TTL_MS,
                total_ms=LONG_MS,
                processing_ms=LONG_MS,
                min_confidence=WANTED if self.setting.wants else 0.0,
                envelope=b"e" * (70_000 if self.setting.large else 10),
            )
            said = result.verdict
        else:
            plan = self._plan(decision.plans[0])
            result = await self.drive.route_again(entry, plan, LegState(decision.state), decision.attempt)
            said = result.verdict
        assert said == verdict, self._story(f"route says {said}")

    async def _take(self, letter: Letter, instance: int, resumed: bool, verdict: str) -> None:
        held = [("normal", self._hand(w.hand)) for w in self.world.works if w.instance == instance] if resumed else None
        result = await self.drive.backend.take(0, f"agent{letter.agent}", self._name(instance), 10, held)
        runs = [taken.hand for taken in result.taken]
        assert runs == ([self._hand(letter.hand)] if verdict == "runs" else []), self._story(f"take gives {runs}")
        assert result.expired == (verdict in {"expired", "bytes lost"}), self._story("take ends another number")

    async def _plain(self, letter: Letter) -> None:
        inbox = KEYS.inbox(0, f"agent{letter.agent}", "normal")
        assert await self.drive.place.read_plain(inbox, GROUP_AGENT, "plain") == [self._hand(letter.hand)]

    async def _settle(self, work: Work, outcome: int, verdict: str) -> None:
        name = self._name(work.instance)
        said = await self._settle_as(work.leg, self._hand(work.hand), f"agent{work.agent}", name, outcome)
        assert said == verdict, self._story(f"settle says {said}")

    async def _park(self, work: Work, verdict: str) -> None:
        hand, name = self._hand(work.hand), self._name(work.instance)
        parking = Parking(self.msg_id, work.leg, hand, b'"?"', name, open_ms=OPEN_MS)
        said = await self.drive.backend.park(0, f"agent{work.agent}", parking)
        assert said == verdict, self._story(f"park says {said}")

    async def _answer(self, n: int, hand: int, verdict: str) -> None:
        said = await self.drive.backend.answer(0, self.msg_id, "sender0", n, self._hand(hand), b"1")
        assert said == verdict, self._story(f"answer says {said}")

    async def _settle_as(self, n: int, hand: str, agent: str, instance: str, outcome: int) -> str:
        wait_ms = 0 if outcome == HANDED_BACK else -1
        settlement = Settlement(self.msg_id, n, hand, ANSWERS[outcome], instance, wait_ms)
        (verdict,) = await self.drive.backend.settle(0, agent, [settlement])
        return verdict

    async def _renew(self, work: Work, is_held: bool) -> None:
        hand = self._hand(work.hand)
        held = await self.drive.backend.renew(0, f"agent{work.agent}", self._name(work.instance), {"normal": [hand]})
        assert bool(held) == is_held, self._story(f"renew holds {held}")

    async def _cancel(self, sender: int, round: int, verdict: str) -> None:
        result = await self.drive.backend.cancel(0, self.msg_id, f"sender{sender}", round, LONG_MS)
        assert result.what == verdict, self._story(f"cancel says {result.what}")

    async def _pass(self, moment: int) -> None:
        record, now_ms = await self.drive.backend.inspect(0, self.msg_id), await self.drive.backend.now_ms()
        assert record is not None, self._story("no record")
        last_ms = max(ends_at_ms(record.head, leg) for leg in record.legs.values())
        until_ms = record.head.first_at_ms if moment == TTL_OVER else last_ms
        await self.drive.place.pass_time(max(until_ms - now_ms, 0) + 1)
        await self._renew_all()

    async def _due(self, n: int, verdict: str) -> None:
        """Long enough for every timer, with routers that live all the while."""
        if verdict in {"ttl.expired", "a plain reader had it in time"}:
            await self.drive.backend.due(0)
            return
        if verdict == "its group was lost: it is still its holder's":  # until due has seen it: then a new lease runs
            key = KEYS.inbox(0, f"agent{self.world.legs[n].agent}", "normal")
            while not await self.drive.place.pending(key, GROUP_AGENT):
                await self.drive.place.pass_time(2_500)
                await self._renew_all()
                await self.drive.backend.due(0)
            return
        if verdict == "its wait is over: again":
            await self.drive.place.pass_time(WAIT_MS)
            await self._renew_all()
        for _ in range(20):
            await self.drive.place.pass_time(2_500)
            await self._renew_all()
            await self.drive.backend.due(0)

    async def _callers_due(self) -> None:
        await self.drive.backend.due(0, self.msg_id)

    async def _renew_all(self) -> None:
        for work in self.world.works:
            if work.lives:
                hand, name = self._hand(work.hand), self._name(work.instance)
                await self.drive.backend.renew(0, f"agent{work.agent}", name, {"normal": [hand]})

    async def _open(self, agent: int) -> None:
        await self.drive.backend.open_inbox(0, f"agent{agent}")

    async def _close(self, agent: int, verdict: str) -> None:
        await self.drive.place.pass_time(16_000)
        await self._renew_all()
        is_gone = await self.drive.backend.close_inbox(0, f"agent{agent}")
        assert is_gone == (verdict == "gone"), self._story("close_inbox says otherwise")

    async def _delete_inbox(self, agent: int) -> None:
        await self.drive.place.delete(KEYS.inbox(0, f"agent{agent}", "normal"))

    async def _delete_env(self) -> None:
        await self.drive.place.delete(KEYS.envelope(0, self.msg_id))

    async def _delete_due(self) -> None:
        await self.drive.place.delete(KEYS.due(0))

    async def _keep(self) -> None:
        stored = await self.drive.place.remember()
        self.kept = _Kept(stored, list(self.waiting), list(self.heard), self.drive.remember())

    async def _restart(self) -> None:
        kept = self.kept
        assert kept is not None
        await self.drive.place.rewind(kept.stored)
        self.drive.rewind(kept.seen)
        self.gone += [entry for entry in self.waiting if entry not in kept.waiting]
        self.waiting, self.heard, self.kept = list(kept.waiting), list(kept.heard), None

    async def _lose_group(self, agent: int) -> None:
        await self.drive.place.drop_group(KEYS.inbox(0, f"agent{agent}", "normal"), GROUP_AGENT)
        await self._open(agent)

    # ---------------------------------------------------------------- words
    def _plan(self, plan: Plan) -> RealPlan:
        agent = self._agent(plan.agent)
        answer = retryable("route.no_candidate") if plan.act == "finish" else None
        wait_ms = WAIT_MS if plan.act == "delay" else 0
        return RealPlan(plan.act, agent=agent, wait_ms=wait_ms, answer=answer)  # type: ignore[arg-type]

    def _hand(self, hand: int) -> str:
        if hand not in self.hands:
            self.count += 1
            self.hands[hand] = f"1-{self.count}"  # forged: nobody ever had it
        return self.hands[hand]

    def _is(self, entry: WorkEntry, wanted: Entry | Decision) -> bool:
        if entry.kind != wanted.door:
            return False
        if wanted.door == INGRESS:
            return entry.fields[b"e"] == f'{{"from":{wanted.about[0]}}}'.encode()
        same = (int(entry.fields[b"l"]), entry.fields[b"h"].decode()) == (wanted.about[0], self._hand(wanted.about[1]))
        return same and (wanted.door == AGAIN or int(entry.fields[b"o"]) == wanted.about[2])

    def _peek(self, wanted: Entry | Decision) -> WorkEntry:
        return next(entry for entry in self.waiting if self._is(entry, wanted))

    def _pick(self, wanted: Entry | Decision, *, there: bool) -> WorkEntry:
        """The entry that is meant; from now on it is no longer pending."""
        if not there:
            found = next(entry for entry in [*self.gone, *self.waiting] if self._is(entry, wanted))
            # After a restart the same entry may be pending once more; what the model means is one that is not.
            return msgspec.structs.replace(found, id="0-1") if found in self.waiting else found
        found = self._peek(wanted)
        self.waiting.remove(found)
        self.gone.append(found)
        return found
