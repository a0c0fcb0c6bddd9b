"""The side of conversations: what their messages do, and what they have used."""

from collections.abc import Sequence

from reach.backend.redis_backend.registry import RegistrySide
from reach.backend.redis_backend.streams import text_of
from reach.backend.scripts import script
from reach.backend.spent import FIELDS, Spent, Uncounted, spent_of
from reach.backend.steps import Meeting, Met, Over, Turn

MAX_TURNS = 100


class ConversationSide(RegistrySide):
    """What is counted in a conversation; see `reach.backend.port` for what each method promises."""

    async def converse(self, turns: Sequence[Turn], max_pair_rate: int, max_same_content: int) -> list[Over]:
        found: list[Over] = []
        for start in range(0, len(turns), MAX_TURNS):
            batch = turns[start : start + MAX_TURNS]
            argv = [argument for turn in batch for argument in _arguments(turn)]
            counts = (max_pair_rate, max_same_content, len(batch))
            reply = await self._link.run(script("converse"), self._keys.agents(), *counts, *argv)
            found += [Over(what.decode(), spent, allowed) for what, spent, allowed in reply]
        return found

    async def spend(self, conversation: str, run: str, cost: int, tokens: int, of: Uncounted | None = None) -> bool:
        message = ("", 1, 0) if of is None else (of.msg_id, of.round, of.needs)
        argv = (conversation, run, cost, tokens, *message)
        return bool(await self._link.run(script("spend"), self._keys.agents(), *argv) == 1)

    async def used_in(self, conversation: str) -> Spent | None:
        key = self._keys.conversation(conversation)
        return spent_of(await self._healing(key, "hash", "HMGET", key, *FIELDS) or ())

    async def meet(self, meetings: Sequence[Meeting]) -> None:
        for start in range(0, len(meetings), MAX_TURNS):
            batch = meetings[start : start + MAX_TURNS]
            argv = [argument for one in batch for argument in (one.source, one.conversation, one.agent)]
            await self._link.run(script("meet"), self._keys.agents(), len(batch), *argv)

    async def met(self, asked: Sequence[tuple[str, str]]) -> list[list[Met]]:
        found: list[list[Met]] = []
        for start in range(0, len(asked), MAX_TURNS):
            batch = asked[start : start + MAX_TURNS]
            argv = [argument for one in batch for argument in one]
            for flat in await self._link.run(script("met"), self._keys.agents(), len(batch), *argv):
                triples = zip(flat[::3], flat[1::3], flat[2::3], strict=True)
                found.append([Met(text_of(agent), at_ms, bool(here)) for agent, at_ms, here in triples])
        return found


def _arguments(turn: Turn) -> list[str | int]:
    budget = [-1 if most is None else most for most in (turn.max_hops, turn.max_cost, turn.max_tokens)]
    said = (turn.conversation, turn.msg_id, turn.round, turn.in_reply_to, turn.depth, turn.pair, turn.content)
    return [*said, turn.tokens, *budget]
