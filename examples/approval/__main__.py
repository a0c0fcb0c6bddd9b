"""A refund above a limit waits for a person: `python -m examples.approval`."""

import asyncio
from typing import Any

from examples.approval.clerk import Approval, Order, Till, clerk
from reach import Reach


async def manager(prompt: Any) -> Approval:
    """The person: whatever asks a human being may stand here, and take hours."""
    print(f"  asked: {prompt}")
    return Approval(ok=prompt["amount"] < 1_000, by="ann")


async def main() -> None:
    till = Till()
    async with Reach.embedded(clerk(till), agent_id="shop") as reach:
        for order in (Order("ORD-1", 20), Order("ORD-2", 500), Order("ORD-3", 5_000)):
            print(f"{order.order_id}: {order.amount}")
            print(f"  {await reach.ask('refund', order, key=order.order_id, on_input=manager)}")
        # The same from a handle: who asks goes away, and somebody else of the same name answers later, by the id of the message.
        handle = await reach.send("refund", Order("ORD-4", 300), key="ORD-4")
        async for progress in handle.progress():
            if progress.kind == "input_required":
                print(f"ORD-4: 300\n  waits: {progress.data}")
                await reach.answer(handle.msg_id, Approval(ok=True, by="bob"))
        print(f"  {(await handle.receipt()).output}")
    print(f"paid: {', '.join(till.paid)}")


if __name__ == "__main__":
    asyncio.run(main())
