"""What a caller knows of its messages that nobody else does, as hop records: that an answer has arrived, that it has cancelled."""

from collections.abc import Sequence

from reach.clock import Clock
from reach.envelope.receipt import ReceiptRecord
from reach.sdk.pending import Pending
from reach.tracing.hops import HopRecorder


class CallerTrail:
    """Writes them."""

    def __init__(self, recorder: HopRecorder, clock: Clock) -> None:
        self._recorder, self._clock = recorder, clock

    def cancelled(self, pending: Pending, legs: Sequence[int]) -> None:
        """Its sender has ended these legs of it: whoever cancels records it."""
        for leg in legs:
            self._recorder.add(
                pending.partition,
                "message.cancelled",
                pending.msg_id,
                leg=leg,
                correlation_id=pending.correlation_id,
                traceparent=pending.traceparent,
                agent=pending.agents.get(leg, ""),
                code="cancelled",
                type=pending.type,
                final=True,
            )

    def delivered(self, partition: int, pending: Pending, receipt: ReceiptRecord) -> None:
        """A receipt has reached its caller."""
        self._recorder.add(
            partition,
            "message.delivered",
            receipt.msg_id,
            leg=receipt.leg,
            attempt=receipt.attempts,
            correlation_id=pending.correlation_id,
            traceparent=pending.traceparent,
            agent=receipt.target_agent or "",
            instance=receipt.target_instance or "",
            code=receipt.code,
            type=pending.type,
            duration_us=(self._clock.monotonic_ms() - pending.started_at_ms) * 1000,
        )
