"""The run of the shipped questions: start, ask, kill half-way, tell, check."""

import asyncio
from collections import Counter
from collections.abc import Sequence

from examples.helpdesk.driver import findings, questions, records
from examples.helpdesk.driver.conversation import STEPS, Asked, Conversation
from examples.helpdesk.driver.desk import IN_FLIGHT, hold_all, tell_answer
from examples.helpdesk.driver.findings import Record, Rerouted
from examples.helpdesk.driver.screen import Screen
from examples.helpdesk.driver.stage import AGENTS, Stage
from examples.helpdesk.driver.strike import Strike, strike
from examples.helpdesk.run_log import Line
from reach import Reach
from reach.clock import SystemClock

ROUTERS = ("router-1", "router-2")
LEAST_FOUND = 0.9
SHOWN_ANSWERS = 3


async def play(stage: Stage, screen: Screen, asked: Sequence[Asked], *, whole: bool) -> list[str]:
    """Everything, in order. Returns every promise that was broken; empty is good.

    `whole`: these are all the shipped questions, so that the share that was found is judged.
    """
    clock = SystemClock()
    began_ms = clock.monotonic_ms()
    screen.head(f"{len(asked)} questions, {len(STEPS)} steps each, {IN_FLIGHT} at once")
    screen.say(f"  agents   {', '.join(AGENTS)}")
    screen.say(f"  routers  {', '.join(ROUTERS)}")
    screen.say(f"  server   {stage.url}, env {stage.env}")
    stage.start(ROUTERS, busy=True)
    async with Reach.connect(stage.url, stage.env, agent_id="help-desk") as reach:
        await stage.complete(reach)
        screen.say(f"  all there after {(clock.monotonic_ms() - began_ms) / 1000:.1f} s")
        screen.say()
        talks, struck = await _ask_and_strike(stage, screen, reach, asked)
        all_records = await records.read_all(reach)
    runs = stage.runs()
    _tell_answers(screen, talks)
    _tell_receipts(screen, talks)
    moved = findings.rerouted(talks, runs, all_records, struck)
    _tell_rerouted(screen, struck, moved, all_records)
    _tell_timeline(screen, talks, moved, all_records)
    wrong = findings.broken(talks, runs, all_records)
    wrong += _tell_found(screen, talks, whole=whole)
    _tell_promises(screen, talks, runs, wrong, (clock.monotonic_ms() - began_ms) / 1000)
    return wrong


async def _ask_and_strike(
    stage: Stage, screen: Screen, reach: Reach, asked: Sequence[Asked]
) -> tuple[list[Conversation], Strike]:
    clock = SystemClock()
    began_ms = clock.monotonic_ms()
    ended: list[Conversation] = []
    half_way = asyncio.Event()

    def on_end(talk: Conversation) -> None:
        ended.append(talk)
        if len(ended) >= len(asked) // 2:
            half_way.set()
        found = sum(each.found for each in ended)
        seconds = (clock.monotonic_ms() - began_ms) / 1000
        screen.progress(len(ended), len(asked), f"{seconds:5.1f} s   {found} found   {reach.outstanding} in flight")

    async def kill_half_way() -> Strike:
        struck = await strike(stage, ROUTERS[0], half_way)
        held = f"{len(struck.held)} runs in its hands"
        screen.say(f"  kill -9 {struck.agent} ({held}) and {struck.router}; neither is started again", fg="red")
        return struck

    async with asyncio.TaskGroup() as group:
        killing = group.create_task(kill_half_way())
        asking = group.create_task(hold_all(reach, asked, on_end))
    stage.look()
    return asking.result(), killing.result()


def _tell_answers(screen: Screen, talks: Sequence[Conversation]) -> None:
    screen.head("Some answers")
    answered = [talk for talk in talks if talk.answer is not None and questions.tuned(talk.asked)]
    for talk in answered[:: max(len(answered) // SHOWN_ANSWERS, 1)][:SHOWN_ANSWERS]:
        tell_answer(screen, talk)


def _tell_receipts(screen: Screen, talks: Sequence[Conversation]) -> None:
    screen.head("Receipts")
    rows: list[Sequence[object]] = [("status", "code", *STEPS, "all")]
    for status, code, per_step in findings.statuses(talks):
        rows.append((status, code, *(per_step[step] for step in STEPS), per_step.total()))
    screen.table(rows)


def _tell_rerouted(screen: Screen, struck: Strike, moved: Sequence[Rerouted], seen: Sequence[Record]) -> None:
    screen.head("What was re-routed")
    begun = [each for each in moved if each.held]
    waiting = [each for each in moved if not each.held]
    screen.say(f"  {len(begun):3} that {struck.agent} had begun: run again{_by(begun)} after the kill")
    screen.say(f"  {len(waiting):3} in its inbox: moved, taken{_by(waiting)} after the kill, or after they came there")
    attempts = Counter(each.attempts for each in moved)
    if attempts:
        screen.say(f"      attempts: {', '.join(f'{number} x {count}' for number, count in sorted(attempts.items()))}")
    let_in = findings.routed_by(seen)
    screen.say(
        f"      let in by {', '.join(f'{router}: {let_in[router]}' for router in ROUTERS)} ({struck.router} until the kill)"
    )


def _by(moved: Sequence[Rerouted]) -> str:
    if not moved:
        return ""
    agents = ", ".join(sorted({each.agent for each in moved}))
    return f" by {agents}, {moved[-1].after_ms / 1000:.1f} to {moved[0].after_ms / 1000:.1f} s"


def _tell_timeline(
    screen: Screen, talks: Sequence[Conversation], moved: Sequence[Rerouted], seen: Sequence[Record]
) -> None:
    """The conversation that was re-routed last, if its records are whole: a killed process takes its last ones with it."""
    rank = {each.msg_id: each.after_ms for each in moved}
    whole = [each for each in talks if questions.tuned(each.asked) and each.answer and records.complete(each, seen)]
    if not whole:
        screen.head("No conversation has all its hop records")
        return
    talk = max(whole, key=lambda each: max(rank.get(receipt.msg_id, 0) for receipt in each.receipts))
    screen.head(f"One conversation, {talk.correlation_id}: {talk.asked.text}")
    screen.table(list(records.timeline(talk, seen)))


def _tell_found(screen: Screen, talks: Sequence[Conversation], *, whole: bool) -> list[str]:
    screen.head("Found: the object that was meant")
    halves = {True: "tuned on", False: "held out"}
    rows: list[Sequence[object]] = []
    for is_tuned, name in halves.items():
        own = [talk.found for talk in talks if questions.tuned(talk.asked) is is_tuned]
        rows.append((name, f"{sum(own)} of {len(own)}", f"{questions.share(own):.1%}"))
    found = [talk.found for talk in talks]
    rows.append(("all", f"{sum(found)} of {len(found)}", f"{questions.share(found):.1%}"))
    screen.table(rows)
    if whole and questions.share(found) < LEAST_FOUND:
        return [
            f"only {questions.share(found):.1%} of the questions were understood, at least {LEAST_FOUND:.0%} must be"
        ]
    return []


def _tell_promises(
    screen: Screen, talks: Sequence[Conversation], runs: Sequence[Line], wrong: Sequence[str], seconds: float
) -> None:
    requests = sum(len(talk.receipts) for talk in talks)
    starts = sum(line.what == "start" for line in runs)
    screen.head(f"{requests} requests, {starts} runs, {seconds:.1f} s")
    if not wrong:
        screen.say("  nothing lost: each request has its one receipt", fg="green")
        screen.say("  nothing answered twice: no run began after the receipt of its message", fg="green")
