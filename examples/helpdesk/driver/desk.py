"""Many questions at once, and one's own."""

import asyncio
from collections.abc import Callable, Sequence

from examples.helpdesk.driver.conversation import Asked, Conversation, hold
from examples.helpdesk.driver.screen import Screen
from examples.helpdesk.driver.stage import Stage
from reach import Reach

IN_FLIGHT = 16


async def hold_all(
    reach: Reach, asked: Sequence[Asked], on_end: Callable[[Conversation], None], *, in_flight: int = IN_FLIGHT
) -> list[Conversation]:
    """Put every question through the chain, so many at once. `on_end` is called as each ends."""
    waiting = iter(asked)
    talks: list[Conversation] = []

    async def one_after_the_other() -> None:
        for question in waiting:
            talk = await hold(reach, question, f"helpdesk-{question.id}")
            talks.append(talk)
            on_end(talk)

    async with asyncio.TaskGroup() as group:
        for _ in range(min(in_flight, len(asked))):
            group.create_task(one_after_the_other())
    return talks


async def answer(stage: Stage, screen: Screen, asked: Sequence[Asked]) -> list[str]:
    """Answer the user's own questions, without kills. Returns what went wrong."""
    stage.start(("router-1",), busy=False)
    async with Reach.connect(stage.url, stage.env) as reach:
        await stage.complete(reach)
        talks = await hold_all(reach, asked, lambda _: None)
    order = {question.id: number for number, question in enumerate(asked)}
    for talk in sorted(talks, key=lambda each: order[each.asked.id]):
        tell_answer(screen, talk)
    undecided = [talk for talk in talks if talk.receipts[-1].code not in {"ok", "handler.rejected"}]
    return [f"{talk.asked.text!r}: {talk.receipts[-1].code}" for talk in undecided]


def tell_answer(screen: Screen, talk: Conversation) -> None:
    """A question and its answer."""
    screen.say()
    screen.say(f"> {talk.asked.text}", fg="cyan")
    if talk.answer is not None:
        for line in talk.answer.text.splitlines():
            screen.say(f"  {line}".rstrip())
        took_ms = sum((receipt.duration_ms or 0) + (receipt.queue_ms or 0) for receipt in talk.receipts)
        agents = ", ".join(str(receipt.target_agent) for receipt in talk.receipts)
        screen.say(f"  ({agents}; {took_ms} ms)", dim=True)
    else:
        screen.say(f"  No answer: {talk.receipts[-1].error_message or talk.receipts[-1].code}.", fg="red")
