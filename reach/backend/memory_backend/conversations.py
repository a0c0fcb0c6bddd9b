"""The side of conversations: what their messages do, and what they have used."""

from collections.abc import Sequence

from reach.backend.memory_backend import conversing, meeting
from reach.backend.memory_backend.side import Side
from reach.backend.spent import Spent, Uncounted
from reach.backend.steps import Meeting, Met, Over, Turn


class ConversationSide(Side):
    """What is counted in a conversation; see `reach.backend.port` for what each method promises."""

    async def converse(self, turns: Sequence[Turn], max_pair_rate: int, max_same_content: int) -> list[Over]:
        def step() -> list[Over]:
            keyed = [(self._keys.conversation(turn.conversation), turn) for turn in turns]
            return [conversing.converse(self._store, key, turn, max_pair_rate, max_same_content) for key, turn in keyed]

        return await self._step("converse", step)

    async def spend(self, conversation: str, run: str, cost: int, tokens: int, of: Uncounted | None = None) -> bool:
        key = self._keys.conversation(conversation)
        return await self._step("spend", lambda: conversing.spend(self._store, key, run, cost, tokens, of))

    async def used_in(self, conversation: str) -> Spent | None:
        key = self._keys.conversation(conversation)
        return await self._step("used_in", lambda: conversing.spent(self._store, key))

    async def meet(self, meetings: Sequence[Meeting]) -> None:
        def step() -> None:
            for one in meetings:
                meeting.meet(self._store, self._keys.met(one.source), one)

        await self._step("meet", step)

    async def met(self, asked: Sequence[tuple[str, str]]) -> list[list[Met]]:
        def step() -> list[list[Met]]:
            return [meeting.met(self._store, self._keys.met(source), stamp) for source, stamp in asked]

        return await self._step("met", step)
