"""What is refused although it was a message: its end goes into the ledger, so that no repeat of it runs later. Pure."""

import msgspec

from reach.backend.steps import Answer, Plan, Refuse, Send
from reach.delivery.answers import addressed, code_answer, refusal
from reach.delivery.judge import Case
from reach.envelope.salvage import salvage
from reach.errors import EnvelopeError


def ended(send: Send, answer: Answer, *, dead: bool = False) -> Send:
    """The decision that ends every leg at once. It opens nothing, so it needs no room. `dead`: and keeps it as a dead letter."""
    wide = send.head.scope == "all"
    plans = tuple(Plan("finish", agent=plan.agent if wide else "", answer=answer, dead=dead) for plan in send.plans)
    head = msgspec.structs.replace(send.head, stages=())  # all end by this, and none by another one
    return msgspec.structs.replace(send, head=head, plans=plans, max_open=0, max_open_sender=0)


def burials(case: Case, reason: str, *, at_ms: int, durability: str) -> tuple[Send | Refuse, ...]:
    """The decisions for an entry that cannot be applied even alone: the first that can be is enough.

    Into the dead letters, and its sender hears of it; where that can be written, with a record.
    """
    told, details = f"it could not be routed: {reason}", {"reason": reason[:300]}
    plain = _plain(case, EnvelopeError("backend.unavailable", told, details=details), at_ms, durability)
    if not isinstance(case.decision, Send):
        return (plain,)
    return ended(case.decision, code_answer("backend.unavailable", told, dict(details)), dead=True), plain


def _plain(case: Case, error: EnvelopeError, at_ms: int, durability: str) -> Refuse:
    """The burial that needs nothing of what is stored."""
    envelope, data = case.envelope, case.data or case.entry.fields.get(b"e", b"")
    if envelope is not None:
        error = addressed(error, envelope)
    elif case.reference is not None:
        error.msg_id = case.reference.msg_id
    else:  # it brought a router down before it was read: its sender is told all the same
        error = EnvelopeError(error.code, error.message, details=error.details, **salvage(data))
    receipt = refusal(error, at_ms=at_ms, durability=durability)
    is_send = case.entry.kind == "ingress"
    return Refuse(
        case.entry,
        mailbox=error.reply_to or "" if is_send else "",
        receipt=receipt if is_send and error.reply_to else b"",
        dead={"m": (error.msg_id or "").encode(), "e": data, "r": receipt, "h": b"[]"},
    )
