"""The agents of the crash runs: what they do is said by the message."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from reach import Context, Reject, Result, Retry
from tests.faults.history import History
from tests.faults.process import Process

PRICE = 0.25

Handler = Callable[[dict[str, Any], Context], Awaitable[Any]]
MakeHandler = Callable[[Process, History], Handler]


def make_handler(process: Process, history: History) -> Handler:
    """A handler that runs in a process and writes down that it began."""

    async def work(body: dict[str, Any], ctx: Context) -> Any:
        history.started(ctx.msg_id, process)
        first = [run[0] for run in history.runs].count(ctx.msg_id) == 1
        fail(body["do"], first)
        match body["do"]:
            case "sleep":
                await process.clock.sleep(body["ms"])
            case "hang once" if not first:
                return ctx.attempt
            case "hang" | "hang once":
                await asyncio.Event().wait()
            case "tell":
                await ctx.progress("half")
                await ctx.alive()
            case "effect":
                await ctx.once("book", history.book, ctx.msg_id)
                if first:
                    raise RuntimeError("after the effect")
            case "question":
                await ctx.once("book", history.book, ctx.msg_id)
                return await ctx.input_required("go on?", state=ctx.attempt, timeout=90)
            case "pay":
                return Result(ctx.attempt, cost=PRICE)
            case "ask":
                return (await ctx.request(body["target"], body["body"])).code
        return ctx.attempt

    return work


def fail(what: str, first: bool) -> None:
    """Raise what the message asks for."""
    match what:
        case "fail once" if first:
            raise RuntimeError("the first run")
        case "fail":
            raise RuntimeError("every run")
        case "wait once" if first:
            raise Retry(after=2)
        case "reject":
            raise Reject("no", "never")
