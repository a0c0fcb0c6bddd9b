"""The agent's side: inbox, take, bell, settle, renew, progress."""

from collections.abc import Mapping, Sequence
from typing import Any, cast

from reach.backend.connection import Reply
from reach.backend.hinting import Hint, read_hint
from reach.backend.keys import GROUP_AGENT, LANES
from reach.backend.redis_backend.side import Side
from reach.backend.redis_backend.streams import text_of
from reach.backend.scripts import script
from reach.backend.steps import Guard, Parking, Settlement, SettleVerdict, Taken, TakeResult
from reach.errors import BackendError

MAX_SETTLED = 100
MAX_RENEWED = 500


class AgentSide(Side):
    """What an agent does; see `reach.backend.port` for what each method promises."""

    async def open_inbox(self, partition: int, agent_id: str) -> bool:
        made = await self._link.run(script("open_inbox"), self._keys.due(partition), agent_id)
        return bool(made > 0)

    async def close_inbox(self, partition: int, agent_id: str) -> bool:
        left = await self._link.run(script("close_inbox"), self._keys.due(partition), agent_id)
        return bool(left == 0)

    async def take(
        self,
        partition: int,
        agent_id: str,
        instance: str,
        free: int,
        held: Sequence[tuple[str, str]] | None = None,
        *,
        turn: int = 0,
        only: str = "",
    ) -> TakeResult:
        resume = int(held is not None)
        known = [f"{lane}:{hand}" for lane, hand in held or ()]
        reply = await self._link.run(
            script("take"), self._keys.due(partition), agent_id, instance, free, resume, turn, only, *known
        )
        gone, more, now_ms, expired, cursors, *taken = reply
        return TakeResult(
            taken=tuple(_taken(partition, now_ms, row) for row in taken),
            cursors={lane: text_of(cursor) for lane, cursor in zip(LANES, cursors, strict=True) if cursor},
            gone=gone == 1,
            expired=expired,
            more=more == 1,
        )

    async def waiting(self, agent_id: str) -> dict[str, set[int]]:
        inboxes = [(p, lane, self._keys.inbox(p, agent_id, lane)) for p in range(self.partitions) for lane in LANES]
        asked: list[list[Any]] = []
        for _, _, key in inboxes:
            asked += [["XLEN", key], ["XPENDING", key, GROUP_AGENT]]
        replies = await self._link.batch(asked)
        found: dict[str, set[int]] = {lane: set() for lane in LANES}
        for (partition, lane, _), entries, pending in zip(inboxes, replies[::2], replies[1::2], strict=True):
            # A lane that cannot be asked is one that `take` has to look at.
            unsure = isinstance(entries, BackendError) or isinstance(pending, BackendError)
            if unsure or entries > pending[0]:
                found[lane].add(partition)
        return found

    async def ring(self, agent_id: str, cursors: Mapping[int, Mapping[str, str]], block_ms: int) -> bool:
        behind = {
            self._keys.inbox(partition, agent_id, lane): cursor
            for partition, lanes in cursors.items()
            for lane, cursor in lanes.items()
        }
        return bool(await self._streams.read(behind, 1, block_ms))

    async def hear(self, agent_id: str, block_ms: int) -> list[Hint]:
        channels = {self._keys.hint(partition, agent_id): partition for partition in range(self.partitions)}
        heard = await self._link.hear(tuple(channels), block_ms)
        hints = (read_hint(channels[channel], data) for channel, data in heard if channel in channels)
        return [hint for hint in hints if hint is not None]

    async def settle(self, partition: int, agent_id: str, settlements: Sequence[Settlement]) -> list[SettleVerdict]:
        verdicts: list[SettleVerdict] = []
        for start in range(0, len(settlements), MAX_SETTLED):
            batch = settlements[start : start + MAX_SETTLED]
            argv: list[str | int] = []
            records = int(all(each.records for each in batch))
            for each in batch:
                answer = each.answer
                argv += [each.msg_id, each.leg, each.hand, each.instance]
                argv += [answer.status, answer.code, answer.core, answer.details, each.wait_ms]
            reply = await self._link.run(
                script("settle"), self._keys.due(partition), agent_id, len(batch), *argv, records
            )
            verdicts += [verdict.decode() for verdict in reply]
        return verdicts

    async def park(self, partition: int, agent_id: str, parking: Parking) -> SettleVerdict:
        argv: list[str | int | bytes] = [agent_id, parking.msg_id, parking.leg, parking.hand, parking.instance]
        argv += [parking.prompt, parking.state, parking.open_ms, *parking.guards]
        verdict: bytes = await self._link.run(script("park"), self._keys.due(partition), *argv)
        return cast("SettleVerdict", verdict.decode())

    async def renew(self, partition: int, agent_id: str, instance: str, held: Mapping[str, Sequence[str]]) -> set[str]:
        named = [(lane, hand) for lane, hands in held.items() for hand in hands]
        still: set[str] = set()
        for start in range(0, len(named), MAX_RENEWED):
            batch = named[start : start + MAX_RENEWED]
            argv = [part for pair in batch for part in pair]
            reply = await self._link.run(script("renew"), self._keys.due(partition), agent_id, instance, *argv)
            still.update(hand for (_, hand), is_held in zip(batch, reply, strict=True) if is_held)
        return still

    async def progress(self, partition: int, msg_id: str, leg: int, hand: str, notice: bytes | None) -> bool:
        reply = await self._link.run(script("progress"), self._keys.due(partition), msg_id, leg, hand, notice or b"")
        return bool(reply == 1)

    async def once_take(
        self, partition: int, msg_id: str, leg: int, hand: str, name: str, owner: str, lease_ms: int
    ) -> Guard:
        argv = (msg_id, leg, hand, name, owner, lease_ms)
        state, value, wait_ms = await self._link.run(script("once_take"), self._keys.due(partition), *argv)
        return Guard(state.decode(), value, wait_ms)

    async def once_end(self, partition: int, msg_id: str, name: str, owner: str, value: bytes) -> bool:
        ended = await self._link.run(script("once_end"), self._keys.due(partition), msg_id, name, owner, value)
        return bool(ended == 1)


def _taken(partition: int, now_ms: int, row: Reply) -> Taken:
    lane, hand, msg_id, leg, attempt, envelope, total_at_ms, processing_ms, answers, observed = row
    return Taken(
        partition=partition,
        lane=text_of(lane),
        hand=text_of(hand),
        msg_id=text_of(msg_id),
        leg=int(leg),
        attempt=int(attempt),
        envelope=envelope,
        now_ms=now_ms,
        total_at_ms=int(total_at_ms),
        processing_ms=int(processing_ms),
        answers=answers,
        observed=observed == b"o",
    )
