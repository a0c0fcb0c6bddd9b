"""Records that were made without the envelope know only the message: its trace is that of the records that knew it."""

from collections import OrderedDict

import msgspec

from reach.tracing.propagation import trace_of
from reach.tracing.record import HopRecord

REMEMBERED = 50_000


class Joiner:
    """Remembers the traces of messages that were sent in one; the messages of the longest ago are forgotten."""

    def __init__(self, remembered: int = REMEMBERED) -> None:
        self._remembered = remembered
        self._known: OrderedDict[str, tuple[str, bool]] = OrderedDict()

    def join(self, record: HopRecord) -> HopRecord:
        """The record, in the trace of its message. One that came before all that know it stays in a trace of its own."""
        if not record.msg_id:
            return record
        if record.trace_id != trace_of(record.msg_id, None).trace_id:
            self._known[record.msg_id] = (record.trace_id, record.sampled)
            if len(self._known) > self._remembered:
                self._known.popitem(last=False)
            return record
        known = self._known.get(record.msg_id)
        if known is None:
            return record
        return msgspec.structs.replace(record, trace_id=known[0], sampled=known[1])
