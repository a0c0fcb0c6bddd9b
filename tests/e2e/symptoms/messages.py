"""What goes wrong with a message: too late, twice, refused, wrong."""

import asyncio
from typing import Any, TypedDict

import msgspec
import redis.asyncio

from reach import Agent, Context, Reject, Retry
from reach.testing import wait_until
from tests.e2e.symptoms.scene import Scene, symptom


def agent_of(agent_id: str, capability: str, handler: Any, **options: Any) -> Agent:
    """An agent with one handler."""
    agent = Agent(agent_id, **options)
    agent.capability(capability)(handler)
    return agent


async def echo(body: Any) -> Any:
    """Gives back what it gets."""
    return body


@symptom("It times out, and the same again succeeds")
async def times_out_then_succeeds(scene: Scene) -> None:
    context_full = asyncio.Event()
    context_full.set()

    async def summary(body: Any) -> Any:
        if context_full.is_set():
            await asyncio.sleep(60)  # a provider that works on far too long a prompt
        return body

    agent = agent_of("writer-1", "summary", summary)
    reach = await scene.town(agent)
    agent.report(context_left=100)
    assert (await scene.sent(reach, "capability:summary", timeout=1)).code == "timeout.total"
    context_full.clear()
    assert (await reach.request("capability:summary", timeout=20)).ok


@symptom("Long work is cut off after 15 seconds")
async def cut_off(scene: Scene) -> None:
    async def report() -> None:
        await asyncio.sleep(60)

    reach = await scene.town(agent_of("reporter-1", "report", report))
    await reach.routes.set("capability:report", b'{"timeouts": {"processing_ms": 300}}')
    receipt = await scene.sent(reach, "capability:report", timeout=5, max_attempts=1)
    assert receipt.code == "timeout.processing"


@symptom("The probe passes, and the call fails")
async def probe_passes(scene: Scene) -> None:
    async def translate() -> None:
        raise PermissionError("401: this key may not use the model")

    agent = agent_of("translator-1", "translate", translate)

    @agent.ready
    async def ready() -> bool:
        return True  # only asks whether the address answers

    reach = await scene.town(agent)
    assert (await scene.sent(reach, "capability:translate", timeout=20, max_attempts=1)).code == "handler.error"


class Weather(TypedDict):
    """What the handler of the next symptom says that it returns."""

    city: str
    celsius: float


@symptom("Sometimes right, sometimes wrong")
async def sometimes_wrong(scene: Scene) -> None:
    agent = Agent("weather-1")

    @agent.capability("weather")
    async def weather() -> Weather:
        return {"city": "Lisbon", "celsius": "warm"}  # type: ignore[typeddict-item]  # what a model has made of it

    await scene.town(agent)


@symptom("Two agents call each other for ever")
async def for_ever(scene: Scene) -> None:
    def polite(agent_id: str, other: str) -> Agent:
        async def chat(number: int, ctx: Context) -> None:
            await ctx.request(f"agent_id:{other}", number + 1, max_attempts=1)

        return agent_of(agent_id, "chat", chat, concurrency=64)

    reach = await scene.town(polite("ann", "bob"), polite("bob", "ann"))
    scene.names["CONVERSATION"] = "talk-1"
    await reach.request("agent_id:ann", 0, correlation_id="talk-1", timeout=20)


@symptom("It was done twice")
async def done_twice(scene: Scene) -> None:
    booked = []

    async def book(body: Any, ctx: Context) -> int:
        booked.append(body)
        if ctx.attempt == 1:
            raise ConnectionError("the answer of the bank was lost")
        return len(booked)

    reach = await scene.town(agent_of("clerk-1", "book", book))
    assert (await scene.sent(reach, "capability:book", timeout=20)).output == 2


@symptom("A conversation costs more than it should")
async def costs_too_much(scene: Scene) -> None:
    reach = await scene.town(agent_of("research-1", "research", echo))
    scene.names["CONVERSATION"] = "talk-2"
    for _ in range(3):
        await reach.request("capability:research", correlation_id="talk-2", budget={"hops": 1}, timeout=20)


@symptom("The handler does not find what the sender has just written")
async def sent_too_early(scene: Scene) -> None:
    async def ship(order: str, ctx: Context) -> str:
        if ctx.attempt == 1:
            raise Retry("no order of this number yet")
        return order

    reach = await scene.town(agent_of("shipper-1", "ship", ship))
    assert (await scene.sent(reach, "capability:ship", "ORD-1", timeout=20)).attempts == 2


@symptom("The handler says no")
async def says_no(scene: Scene) -> None:
    async def refund() -> None:
        raise Reject("no_such_order", "there is no such order")

    reach = await scene.town(agent_of("refund-1", "refund", refund))
    assert (await scene.sent(reach, "capability:refund", timeout=20)).code == "handler.rejected"


@symptom("A message sits in the queue")
async def sits_in_the_queue(scene: Scene) -> None:
    busy = asyncio.Event()
    asking = await scene.town(agent_of("slow-1", "work", busy.wait, concurrency=1))

    async def end() -> None:
        busy.set()
        for handle in handles:
            await handle.receipt(20)

    handles = [await asking.send("capability:work", n) for n in range(2)]
    scene.names["MSG_ID"] = handles[1].msg_id
    scene.at_end(end)


@symptom("Messages of one order line stand still")
async def line_stands(scene: Scene) -> None:
    busy = asyncio.Event()
    asking = await scene.town(agent_of("ledger-1", "post", busy.wait))

    async def end() -> None:
        busy.set()
        await first.receipt(20)

    first = await asking.send("capability:post", 1, order_key="account 7")
    scene.names["FIRST"] = first.msg_id
    scene.at_end(end)


@symptom("Dead letters grow")
async def dead_letters(scene: Scene) -> None:
    async def pay() -> None:
        raise ConnectionError("the bank cannot be reached")

    reach = await scene.town(agent_of("payer-1", "pay", pay))
    await scene.sent(reach, "capability:pay", timeout=20, max_attempts=1)


@symptom("Messages of a program without the SDK come to nothing")
async def malformed(scene: Scene) -> None:
    await scene.town(agent_of("echo-1", "echo", echo))
    await by_hand(
        scene.url, b'{"msg_id":"by-hand-1","type":"request","target":{"pattern":"capability:echo"},"payload":{}}'
    )
    scene.names["MSG_ID"] = "by-hand-1"


async def by_hand(url: str, envelope: bytes) -> None:
    """Put this into the door of the env."""
    async with redis.asyncio.Redis.from_url(url) as client:
        await client.xadd("reach:{dev.0}:ingress:normal", {"e": envelope})


@symptom("The body is refused: `payload.invalid`, `schema.incompatible`")
async def schema_refused(scene: Scene) -> None:
    reach = await scene.town(agent_of("weather-1", "weather", echo))
    await reach.schemas.set("weather.query.v1", _query("city"))
    # what the page calls a file
    scene.names["@query.json"] = msgspec.json.encode(_query("city", "day")).decode()


def _query(*fields: str) -> dict[str, Any]:
    """A schema that wants these fields."""
    return {"type": "object", "properties": {name: {"type": "string"} for name in fields}, "required": list(fields)}


@symptom("A refund has no answer: an accident to its cause in two commands")
async def refund_without_answer(scene: Scene) -> None:
    """The bank is slow, the first clerk is given up while the order is `refunding`; the second one finds it in that state and drops it."""
    order = {"state": "paid"}

    def clerk(agent_id: str) -> Agent:
        async def refund() -> None:
            if order["state"] != "paid":
                raise Reject("state_conflict", f"the order is {order['state']}, not paid")
            order["state"] = "refunding"
            await asyncio.sleep(60)  # the bank

        return agent_of(agent_id, "refund", refund)

    async def desk(number: str, ctx: Context) -> str:
        answer = await ctx.request("capability:refund", number)
        return "refunded" if answer.ok else "we will be in touch"  # and nobody ever is

    reach = await scene.town(clerk("clerk-1"), clerk("clerk-2"), agent_of("desk-1", "complain", desk))
    await reach.routes.set("capability:refund", b'{"timeouts": {"processing_ms": 300}}')
    handle = await reach.send("capability:complain", "ORD-1", correlation_id="case-7", timeout=20)
    assert (await handle.receipt(20)).output == "we will be in touch"
    scene.names["CONVERSATION"] = "case-7"
    found: list[str] = []

    async def dropped() -> bool:
        trace = await reach.events.trace("case-7")
        asked = [one.msg_id for one in trace.walk() if one.pattern == "capability:refund"] if trace else []
        found[:] = asked
        return bool(asked)

    await wait_until(dropped, timeout=20)
    scene.names["MSG_ID"] = found[0]
