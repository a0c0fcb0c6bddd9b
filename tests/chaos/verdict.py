"""The judgement: what the callers got, what the handlers did and what the mail said, held against the promises."""

import itertools
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from reach import Receipt
from tests.chaos.cast import AGENTS, Kill
from tests.chaos.histories import Call, Facts, Mail, Message, Slot, facts_of, is_local
from tests.chaos.ledger_file import Run
from tests.chaos.report import Report

TAKEOVER_MS = 17_000
LATE_MS = 250
OLD_MS = 9_000
LEGS = len(set(AGENTS.values()))

Runs = Mapping[str, list[Run]]


class Judge:
    """Writes what it finds into the report. `slack_ms`: what a busy machine may add to the moments that are promised."""

    def __init__(self, report: Report, runs: Runs, mail: Mail, kills: Sequence[Kill], slack_ms: int) -> None:
        self._report, self._runs, self._slack_ms = report, runs, slack_ms
        self._mail: dict[str, dict[Slot, Sequence[Receipt[Any]]]] = defaultdict(dict)
        for slot, receipts in mail.slots.items():
            self._mail[slot.msg_id][slot] = receipts
        self._kills = kills
        self._killed = {kill.pid: kill.at_ms for kill in kills}

    def broken(self, message: Message, what: str) -> None:
        """A promise did not hold."""
        self._report.broken.append(f"{message.kind} {message.n} ({message.scope}, {message.msg_id}): {what}")

    def judge(self, messages: Sequence[Message]) -> None:
        """Judge them all."""
        for message in messages:
            self._report.messages[message.kind] += 1
            self._report.calls += len(message.calls)
            runs = self._runs.get(message.msg_id, [])
            starts = [run for run in runs if run.what == "start"]
            self._report.runs += len(starts)
            if message.kind == "silent":
                self._silent(message, runs)
            else:
                self._answered(message)
                self._expected(message)
                ends = self._one_end(message)
                self._runs_and_ends(message, ends)
            self._in_time(message, starts)
            self._takeovers(message, starts)
        if any(ms > TAKEOVER_MS + self._slack_ms for ms in self._report.takeovers_ms):
            self._report.broken.append(f"a takeover took {max(self._report.takeovers_ms)} ms")

    # ------------------------------------------------------------ what the callers got

    def _answered(self, message: Message) -> None:
        """Every caller, in time, by the ledger and not by its own clock."""
        if not message.calls:
            self.broken(message, "lost: nobody was answered")
        for call in message.calls:
            self._report.slowest_s = max(self._report.slowest_s, call.seconds)
            over_ms = round((call.seconds - call.total_s) * 1000)
            self._report.latest_ms = max(self._report.latest_ms, over_ms)
            if over_ms - call.stall_ms > LATE_MS + self._slack_ms:
                self.broken(
                    message,
                    f"{call.who} was answered {over_ms} ms after its total; its loop stood still for {call.stall_ms} ms",
                )
            if not call.receipts:
                self.broken(message, f"lost: {call.who} got no receipt")
            for receipt in call.receipts:
                self._report.answers[f"{receipt.status}/{receipt.code}"] += 1
                if is_local(receipt) and message.kind != "late":
                    self.broken(message, f"lost: {call.who} had to end it by itself: {receipt.code}")
            self._legs(message, call)

    def _legs(self, message: Message, call: Call) -> None:
        """Every leg, and for each its own agent. An agent that was killed so often that it could not register has none."""
        legs = {receipt.leg for receipt in call.receipts}
        others = {receipt.leg for receipt in message.calls[0].receipts}
        if legs != set(range(len(legs))) or legs != others or (message.scope == "one" and legs != {0}):
            self.broken(message, f"{call.who} got the legs {legs}, the first caller {others}")
        agents = {receipt.target_agent for receipt in call.receipts}
        if len(agents) != len(legs) and agents != {None}:  # nobody has a leg of what was cancelled before it was routed
            self.broken(message, f"{call.who} got the legs {legs} of {agents}")
        self._report.fewer += message.scope == "all" and len(legs) < LEGS

    def _expected(self, message: Message) -> None:
        """The end that its kind must have: nothing is wrong with any message but being killed, cancelled or late."""
        allowed = {"ok"}
        if message.kind == "cancel":
            allowed = (
                {"ok", "cancelled"} if message.scope == "all" or message.cancelled_at_ms is None else {"cancelled"}
            )
        elif message.kind == "late":
            allowed = {"timeout.total"}
        elif message.kind == "again":
            self._report.rounds += max(receipt.round for receipt in message.receipts) - 1
            if not all(receipt.ok for receipt in message.calls[-1].receipts):
                self.broken(message, f"never ended well: {[receipt.code for receipt in message.receipts]}")
            return
        for receipt in message.receipts:
            if receipt.code not in allowed:
                self.broken(
                    message, f"ended {receipt.status}/{receipt.code}: {receipt.error_message} {receipt.details}"
                )
            if receipt.ok and receipt.output != {"n": message.n}:
                self.broken(message, f"has the output {receipt.output}")

    def _one_end(self, message: Message) -> dict[tuple[int, int], Receipt[Any]]:
        """One terminal receipt per leg and round, in every mailbox that asked: (leg, round) -> how it ended."""
        ends: dict[tuple[int, int], Receipt[Any]] = {}
        said: dict[tuple[int, int], set[Facts]] = defaultdict(set)
        for slot, receipts in self._mail.get(message.msg_id, {}).items():
            first = [receipt for receipt in receipts if not receipt.stored]
            self._report.stored += len(receipts) - len(first)
            if len(first) > 1:
                self.broken(message, f"{len(first)} terminal receipts of leg {slot.leg}, round {slot.round}: {first}")
            for receipt in receipts:
                said[slot.leg, slot.round].add(facts_of(receipt))
                ends[slot.leg, slot.round] = receipt
        for receipt in message.receipts:
            if is_local(receipt):
                self._report.locals += 1  # the ledger's own came after total + 250 ms, and must say the same
                if {facts.code for facts in said[receipt.leg, receipt.round]} - {receipt.code}:
                    self.broken(message, f"was told {receipt.code}: {said[receipt.leg, receipt.round]}")
                continue
            said[receipt.leg, receipt.round].add(facts_of(receipt))
            ends.setdefault((receipt.leg, receipt.round), receipt)
        for (leg, round_), facts in said.items():
            if len(facts) > 1:
                self.broken(message, f"leg {leg}, round {round_} ended in several ways: {facts}")
        for call in message.calls:
            for receipt in call.receipts:
                if (
                    not is_local(receipt)
                    and Slot(call.who, message.msg_id, receipt.leg, receipt.round) not in self._mail[message.msg_id]
                ):
                    self.broken(message, f"no receipt of leg {receipt.leg} came into {call.who}")
        return ends

    # ------------------------------------------------------------ what the handlers did

    def _runs_and_ends(self, message: Message, ends: Mapping[tuple[int, int], Receipt[Any]]) -> None:
        """No run begins after the end of its leg's round, before somebody has asked for the next one."""
        asked = sorted(call.asked_at_ms for call in message.calls)
        last = max((round_ for _, round_ in ends), default=1)
        begun = 0
        for (_, round_), end in sorted(ends.items(), key=lambda item: item[0]):
            runs = self._of(message, end)
            starts = [run for run in runs if run.what == "start"]
            next_round = next((at for at in asked if at >= end.finished_at), None) if round_ < last else None
            after = [run for run in starts if run.at_ms > end.finished_at]
            if next_round is not None:
                after = [run for run in after if run.at_ms < next_round]
            begun += len(starts)
            # What was under way when a cancel or the total cut it off may have been on its way to the handler.
            cut_off = end.details.get("state") == "running" and len(after) == 1 and after[0].attempt == end.attempts
            if after and not cut_off:
                self.broken(message, f"ran after its end ({end.code} at {end.finished_at}, round {round_}): {after}")
            if end.ok and not any(run.what == "end" and run.at_ms <= end.finished_at for run in runs):
                self.broken(message, f"success, and no handler came to its end: {runs}")
            if last == 1:
                self._again_before_end(starts, runs, end)
        if message.cancelled_at_ms is not None:
            self._report.cancelled += 1
            self._report.never_run += not begun

    def _again_before_end(self, starts: Sequence[Run], runs: Sequence[Run], end: Receipt[Any]) -> None:
        before = [run for run in starts if run.at_ms <= end.finished_at]
        self._report.reruns += max(len(before) - 1, 0)
        self._report.repeated += max(sum(run.what == "end" for run in runs) - 1, 0)

    def _of(self, message: Message, end: Receipt[Any]) -> list[Run]:
        """The runs of a leg: a broadcast's have an agent each."""
        runs = self._runs.get(message.msg_id, [])
        return runs if message.scope == "one" else [run for run in runs if run.agent == end.target_agent]

    def _silent(self, message: Message, runs: Sequence[Run]) -> None:
        """Nobody waits: the handlers' own book says that it was done, and that no duplicate ran."""
        by_agent: dict[str, list[Run]] = defaultdict(list)
        for run in runs:
            by_agent[run.agent if message.scope == "all" else ""].append(run)
        done = sum(any(run.what == "end" for run in group) for group in by_agent.values())
        if not done or (message.scope == "one" and done != 1) or done < len(by_agent):
            self.broken(message, f"lost: {done} of its legs were done: {runs}")
        for group in by_agent.values():
            # Without a receipt nothing says when the completion was recorded; who died before that is the one excuse for another run.
            for first, second in itertools.pairwise(run for run in group if run.what == "start"):
                if self._killed.get(first.pid, second.at_ms) >= second.at_ms:
                    self.broken(message, f"ran twice, and the first one lived: {first}, {second}")

    def _in_time(self, message: Message, starts: Sequence[Run]) -> None:
        """Nothing that was sent for later begins before its moment, however often it is handed over."""
        for start in starts:
            if start.at_ms < message.not_before_ms:
                self.broken(message, f"began {message.not_before_ms - start.at_ms} ms before its time: {start}")
        self._report.waited += bool(message.not_before_ms and starts)

    # ------------------------------------------------------------ takeovers

    def _takeovers(self, message: Message, starts: Sequence[Run]) -> None:
        for loss in itertools.chain.from_iterable(message.losses.values()):
            # The run that was lost, by its number; a holder that died between take and start wrote nothing: then it is the last death of
            # the agent that is old enough, since a lease ends 15 s after a renewal and there is one every 5 s.
            run = [one for one in starts if (one.agent, one.attempt) == (loss["agent"], loss["attempt"])]
            deaths = [self._killed[one.pid] for one in run if one.pid in self._killed] or [
                kill.at_ms
                for kill in self._kills
                if AGENTS.get(kill.name) == loss["agent"] and loss["at"] - kill.at_ms > OLD_MS
            ]
            before = [at_ms for at_ms in deaths if at_ms <= loss["at"]]
            if message.kind == "late":
                continue  # its run takes longer than a lease without being lost
            if not before:
                self.broken(message, f"was taken from {loss['agent']}, which lived: {loss}")
                continue
            self._report.takeovers_ms.append(loss["at"] - max(before))
