"""A later round of a broadcast: which legs it opens, and whose they are, the ledger alone knows."""

from reach.backend.port import Backend
from reach.backend.steps import Record, RouteResult, Send
from reach.delivery.judge import Case
from reach.errors import BackendError
from reach.log import PacedLog


def reopens_legs(send: Send, result: RouteResult) -> bool:
    """Whether this was such a round: its hands are of the legs that it has opened, in their order."""
    return send.head.scope == "all" and send.head.round > 1 and result.known in {"", "tombstone"}


async def opened(backend: Backend, partition: int, case: Case, result: RouteResult, log: PacedLog) -> Record | None:
    """The record of a case that has been applied, read where it was such a round. None: it could not be read, which is logged."""
    send = case.decision
    if not isinstance(send, Send) or not reopens_legs(send, result):
        return case.record
    try:
        return await backend.inspect(partition, send.msg_id)
    except BackendError as error:  # it is applied: only its hop records say less
        log.warning("legs unknown", msg_id=send.msg_id, error=str(error))
        return None
