"""The refund accident, and what `ctx.once` makes of it: `python -m examples.refund`.

A bank takes 15 s for a transfer. The agent that asked it is given up meanwhile and answers late, or dies after the transfer and before
it can say so; the customer, who has heard nothing, asks again; the message goes on to another agent. Everything runs in this process by a
clock that the program moves, so that an accident of a minute takes a moment.
"""

import asyncio
import logging

from examples.refund.accident import ACCIDENTS, happen


async def main() -> None:
    logging.getLogger("reach").setLevel(logging.ERROR)  # the accident is told below
    for accident in ACCIDENTS:
        for guarded in (False, True):
            story = await happen(accident, guarded=guarded)
            print(f"{accident}, {'with ctx.once' if guarded else 'without ctx.once'}")
            for line in story.lines:
                print(f"  {line}")
            receipt = story.receipt
            print(
                f"  = {receipt.status} after {receipt.attempts} runs, {len(story.booked)} transfer(s) at the bank; why:"
            )
            for line in story.history:
                print(f"      {line}")
            print()


if __name__ == "__main__":
    asyncio.run(main())
