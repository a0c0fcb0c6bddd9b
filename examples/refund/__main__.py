"""The refund accident, and what `ctx.once` makes of it: `python -m examples.refund`.

A bank takes 15 s for a transfer. The agent that asked it dies after the transfer and before it can say so; the customer, who has heard
nothing, asks again; the message goes on to another agent. Everything runs in this process by a clock that the program moves, so that
an accident of a minute takes a moment.
"""

import asyncio
import logging

from examples.refund.accident import happen


async def main() -> None:
    logging.getLogger("reach").setLevel(logging.ERROR)  # the accident is told below
    for guarded in (False, True):
        story = await happen(guarded=guarded)
        print("with ctx.once" if guarded else "without it")
        for line in story.lines:
            print(f"  {line}")
        print(
            f"  = {story.receipt.status} after {story.receipt.attempts} runs, {len(story.booked)} transfer(s) at the bank\n"
        )


if __name__ == "__main__":
    asyncio.run(main())
