"""What a router counts of its decisions beside what their hop records say: what has come in, and how long it took to hand over."""

from reach import ids
from reach.backend.steps import Again, DueEvent, Refuse, RouteResult, Send
from reach.delivery.judge import Case
from reach.envelope.ledger import LegState
from reach.routing.steps import Observe
from reach.tracing.metrics import known_code
from reach.tracing.record import Point
from reach.tracing.tally import Tally

#: What ends so has failed to be routed, where no agent had ever had it.
_BESIDE = frozenset({"message.expired", "message.dead"})
_FIRST = frozenset({LegState.WAITING, LegState.HELD})


class RouteCounting:
    """Counts into the tally of its process."""

    def __init__(self, tally: Tally) -> None:
        self._tally = tally

    def routed(self, case: Case, result: RouteResult) -> None:
        """A decision has been applied."""
        if case.entry.kind == "ingress":
            self._tally.count("reach_messages_in_total")
        since_ms, hands = _first_hands(case, result)
        envelope = case.envelope
        for hand in hands if envelope is not None else ():
            took_s = (ids.stream_id(hand)[0] - since_ms) / 1000
            self._tally.delivery.observe(took_s, envelope.msg_id, envelope.traces.traceparent)  # type: ignore[union-attr]

    def buried(self, burial: Send | Refuse) -> None:
        """An entry that could not be applied is among the dead letters."""
        if burial.entry.kind == "ingress":
            self._tally.count("reach_messages_in_total")

    def ended(self, point: Point, attempt: int, code: str) -> None:
        """A router has ended a leg, after so many attempts. `route.failed` itself is counted by its record."""
        if not attempt and point in _BESIDE:
            self._tally.count("reach_route_fail_total", known_code(code))

    def expired(self, event: DueEvent) -> None:
        """`due` has ended a leg: nobody had been found for it, where it has no agent and no attempt behind it."""
        if event.what == "expired" and not event.agent and event.attempt <= 1:
            self._tally.count("reach_route_fail_total", known_code(event.code))


def _first_hands(case: Case, result: RouteResult) -> tuple[int, list[str]]:
    """Since when it could be handed over, and the entries with which legs were, for the first time."""
    decision, choice = case.decision, case.choice
    if choice is None or not any(result.hands):
        return 0, []
    if isinstance(decision, Send):
        steps = zip(choice.steps, result.hands, strict=False)
        hands = [hand for step, hand in steps if hand and not isinstance(step, Observe)]
        return ids.stream_id(case.entry.id)[0], hands
    leg, record = case.leg, case.record
    if not isinstance(decision, Again) or leg is None or record is None or decision.state not in _FIRST:
        return 0, []
    since_ms = max(record.head.accepted_at_ms, record.head.not_before_ms)
    return since_ms, [] if leg.attempt or leg.returns else [hand for hand in result.hands if hand]
