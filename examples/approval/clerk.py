"""An agent that pays refunds, and asks whoever sent the order before it pays a large one."""

import msgspec

from reach import Agent, Context

LIMIT = 100


class Order(msgspec.Struct):
    order_id: str
    amount: int


class Approval(msgspec.Struct):
    ok: bool
    by: str


class Till:
    """Where the money is. What it has paid cannot be taken back."""

    def __init__(self) -> None:
        self.paid: list[str] = []

    def pay(self, order_id: str) -> str:
        self.paid.append(order_id)
        return f"T-{len(self.paid)}"


def clerk(till: Till) -> Agent:
    """Begins again from its start when the answer is there: what it does before it asks must be fit to be done twice."""
    agent = Agent("clerk-{instance}")

    @agent.capability("refund")
    async def refund(order: Order, ctx: Context) -> str:
        if order.amount > LIMIT:
            question = {"approve": order.order_id, "amount": order.amount}
            approval = await ctx.input_required(question, returns=Approval, timeout=8 * 3600)
            if not approval.ok:
                return f"{order.order_id} was refused by {approval.by}"
        number: str = await ctx.once("pay", till.pay, order.order_id)
        return number

    return agent
