"""Records that were made without the envelope know only the message: its trace is that of the records that knew it."""

from collections import OrderedDict

import msgspec

from reach.tracing.naming import DUPLICATE
from reach.tracing.propagation import trace_of
from reach.tracing.record import HopRecord

REMEMBERED = 50_000


class Joiner:
    """Remembers the traces of messages; the messages of the longest ago are forgotten."""

    def __init__(self, remembered: int = REMEMBERED) -> None:
        self._remembered = remembered
        self._known: OrderedDict[tuple[str, int], tuple[str, bool]] = OrderedDict()

    def join(self, record: HopRecord) -> HopRecord:
        """The record, in the trace of its message: that in which it was sent first, also for whoever has sent a copy of it.

        One that came before all that know it stays in a trace of its own, and so does what has come to the door: it was sent in that one.
        """
        if not record.msg_id or record.code == DUPLICATE or record.point == "message.rejected":
            return record
        name = (record.msg_id, record.round)
        known = self._known.get(name)
        if record.point != "message.received" and known is not None:
            same = known == (record.trace_id, record.sampled)
            return record if same else msgspec.structs.replace(record, trace_id=known[0], sampled=known[1])
        if record.point == "message.received" or record.trace_id != trace_of(record.msg_id, None).trace_id:
            self._known[name] = (record.trace_id, record.sampled)
            if len(self._known) > self._remembered:
                self._known.popitem(last=False)
        return record
