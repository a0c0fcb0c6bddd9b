"""Every error that leaves reach: one hierarchy, with fields, a stable `code`, and whether to try again.

Ask `error.code`, `error.retryable` and `error.details`; never search in the text.
"""

from collections.abc import Mapping
from typing import Any, ClassVar


class ReachError(Exception):
    """The root. `code` is from the table in docs/codes.md, or names a local fault (`config.invalid`).

    Attributes:
        code: The stable code.
        message: One sentence: what, which, how much.
        details: Fields for programs; JSON-able.
        retryable: Whether the same again can help.
        retry_after_ms: When to try again, where that is known.
    """

    default_code: ClassVar[str] = "error"
    default_retryable: ClassVar[bool] = False

    def __init__(
        self,
        message: str = "",
        *,
        code: str | None = None,
        details: Mapping[str, Any] | None = None,
        retryable: bool | None = None,
        retry_after_ms: int | None = None,
    ) -> None:
        self.code = code if code is not None else self.default_code
        self.message = message
        self.details = dict(details or {})
        self.retryable = self.default_retryable if retryable is None else retryable
        self.retry_after_ms = retry_after_ms
        super().__init__(f"{self.code}: {message}" if message else self.code)


class EnvelopeError(ReachError):
    """An envelope that breaks a rule; `code` says which. What could still be read of it is given, to answer it.

    Attributes:
        reply_to: The mailbox to answer, if one of valid grammar could be read.
        msg_id: The message's id, if a canonical one could be read.
        correlation_id: The conversation, if readable.
        task_id: The caller's own id, if readable.
        source: The sender's agent_id, if readable.
        round: The round that was asked for, if readable.
    """

    default_code = "envelope.malformed"

    def __init__(
        self,
        code: str,
        message: str = "",
        *,
        details: Mapping[str, Any] | None = None,
        reply_to: str | None = None,
        msg_id: str | None = None,
        correlation_id: str | None = None,
        task_id: str | None = None,
        source: str | None = None,
        round: int | None = None,
    ) -> None:
        super().__init__(message, code=code, details=details)
        self.reply_to = reply_to
        self.msg_id = msg_id
        self.correlation_id = correlation_id
        self.task_id = task_id
        self.source = source
        self.round = round


class RecordError(ReachError):
    """A receipt, notice, beat, policy or control entry that cannot be read."""

    default_code = "record.malformed"


class RegistrationRefused(ReachError):
    """The registrar refused.

    `details["problems"]` lists the first 20 problems as `{code, field, message}`, `details["more"]` counts the others.
    """

    default_code = "registration.refused"


class NoRoute(ReachError):
    """Nobody offers what was asked for, or nobody fits now (then it is retryable)."""

    default_code = "route.not_found"


class Overloaded(ReachError):
    """Too much at once; `retry_after_ms` says when to come back."""

    default_code = "overloaded"
    default_retryable = True


class Timeout(ReachError):
    """A deadline passed: `timeout.network`, `timeout.processing`, `timeout.total`, `ttl.expired`."""

    default_code = "timeout.total"
    default_retryable = True


class Rejected(ReachError):
    """The handler, or a rule, said no: the same again cannot help."""

    default_code = "handler.rejected"


class AnswerRefused(ReachError):
    """An answer to a question of a handler that was not taken; the question, if there is one, stays open.

    `answer.not_asked`: nothing is asked; `answer.which_leg`: several legs ask; `answer.stale`: it has been answered, or is not open
    any more; `answer.denied`: somebody else has sent the message; `answer.unknown`: there is no such message, or not any more.
    """

    default_code = "answer.not_asked"


class Cancelled(ReachError):
    """The sender cancelled the message."""

    default_code = "cancelled"


class HandlerFailed(ReachError):
    """The handler failed or its agent was lost, and no attempt was left."""

    default_code = "handler.error"
    default_retryable = True


class BackendError(ReachError):
    """Redis said no, or not what was expected."""

    default_code = "backend.error"


class BackendUnavailable(BackendError):
    """Redis cannot be reached, is loading, or is failing over."""

    default_code = "backend.unavailable"
    default_retryable = True


class BackendFull(BackendError):
    """Redis is out of memory and does not evict."""

    default_code = "backend.full"
    default_retryable = True


class IngressFull(BackendFull):
    """So many messages lie at a door that routers seem to be down (`max_ingress` in meta); `retry_after_ms` says when to try again."""

    default_code = "backend.ingress_full"


class BackendDenied(BackendError):
    """Redis refuses the credentials or the command (ACL)."""

    default_code = "backend.denied"


#: What a step says when Redis itself cannot serve now: what the step was about is not to blame. Any other BackendError is about that.
SERVER_ERRORS = (BackendUnavailable, BackendFull, BackendDenied)


class ScriptFailed(BackendError):
    """A script or command ended in an error of its own; `details["reply"]` has what Redis said."""

    default_code = "backend.script_failed"


class SchemaRefused(ReachError):
    """A JSON Schema that was not stored; `details["problems"]` lists all that is wrong as `{code, field, message}`.

    `schema.bad`: it is none, or none that is safe; `schema.incompatible`: the rule of its family; `schema.changed`: another one has this
    name; `schema.full`: there is no room for more.
    """

    default_code = "schema.bad"


class ConfigError(ReachError):
    """Settings that cannot be used; `details["problems"]` lists them all."""

    default_code = "config.invalid"


_CLASSES: tuple[tuple[str, type[ReachError]], ...] = (
    ("route.", NoRoute),
    ("overloaded", Overloaded),
    ("capacity.", Overloaded),
    ("circuit.", Overloaded),
    ("timeout.", Timeout),
    ("ttl.expired", Timeout),
    ("cancelled", Cancelled),
    ("handler.rejected", Rejected),
    ("handler.", HandlerFailed),
    ("agent.lost", HandlerFailed),
    ("probe.failed", HandlerFailed),
    ("backend.unavailable", BackendUnavailable),
    ("backend.", BackendError),
    ("registration.", RegistrationRefused),
    ("schema.", SchemaRefused),
)


def error_for(
    code: str,
    message: str = "",
    *,
    details: Mapping[str, Any] | None = None,
    retryable: bool = False,
    retry_after_ms: int | None = None,
) -> ReachError:
    """The error of a receipt's code. A code that has no class of its own: `Rejected` if final, else `HandlerFailed`."""
    kind = next(
        (kind for prefix, kind in _CLASSES if code.startswith(prefix)), HandlerFailed if retryable else Rejected
    )
    return kind(message, code=code, details=details, retryable=retryable, retry_after_ms=retry_after_ms)
