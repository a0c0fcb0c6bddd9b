"""What a caller knows of its messages that nobody else does, as hop records: that an answer has arrived."""

from reach.clock import Clock
from reach.envelope.receipt import ReceiptRecord
from reach.sdk.pending import Pending
from reach.tracing.hops import HopRecorder


class CallerTrail:
    """Writes them."""

    def __init__(self, recorder: HopRecorder, clock: Clock) -> None:
        self._recorder, self._clock = recorder, clock

    def delivered(self, partition: int, pending: Pending, receipt: ReceiptRecord) -> None:
        """A receipt has reached its caller."""
        self._recorder.add(
            partition,
            "message.delivered",
            receipt.msg_id,
            leg=receipt.leg,
            attempt=receipt.attempts,
            round=receipt.round,
            stored=receipt.stored,
            correlation_id=pending.correlation_id,
            traceparent=pending.traceparent,
            agent=receipt.target_agent or "",
            instance=receipt.target_instance or "",
            code=receipt.code,
            type=pending.type,
            duration_us=(self._clock.monotonic_ms() - pending.started_at_ms) * 1000,
        )
