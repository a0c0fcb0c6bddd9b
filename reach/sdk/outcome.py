"""What a handler's end becomes: the answer that is settled. Pure."""

import datetime as dt
import sys
from typing import Any, Generic, TypeVar, cast

import msgspec

from reach.backend.steps import Answer
from reach.delivery.answers import make_answer, plain
from reach.errors import ReachError
from reach.ids import is_schema
from reach.sdk.bodies import BodyError, decode_body, encode_body
from reach.sdk.declared import check_number, check_text
from reach.sdk.durations import Duration, to_ms
from reach.sdk.retry_after import told_by

T = TypeVar("T")

MAX_OUTPUT_BYTES = 1 << 20
#: Beside an output and a text: the whole receipt has to stay below what everybody reads.
MAX_DETAILS_BYTES = 1 << 16
MAX_DETAILS = 64
MAX_DETAIL_CHARS = 256


class Retry(Exception):
    """Raise it in a handler: not now. With `after`, the message waits so long and no attempt is burnt.

    An exception of an HTTP client does the same by itself: where it carries an answer of 429, 503 or 529 with a `Retry-After` header
    (seconds or a date), the message waits so long, burning no attempt; the receipt has `retry_after_ms` and `details["http_status"]`.

    A wait that ends behind the caller's total ends the message at once. Free runs are at least 100 ms apart, after ten of them a second.

    Args:
        after: Seconds or timedelta; None: the ordinary back-off, and the run counts as an attempt.
        message: Why, for the receipt; a str alone, `Retry("later")`, is the message as well.
        cost: What the run cost all the same, as `Result`.
        tokens: How many tokens it used, as `Result`.
    """

    def __init__(
        self,
        after: float | dt.timedelta | str | None = None,
        message: str = "",
        *,
        cost: float | None = None,
        tokens: int | None = None,
    ) -> None:
        wait: object = after
        if isinstance(after, str) and not message:
            wait, message = None, after
        if wait is not None and type(wait) not in (int, float) and not isinstance(wait, dt.timedelta):
            raise TypeError(f"Retry(after={wait!r}): seconds or a timedelta is wanted")
        check_text("Retry(message=...)", message)
        self.cost, self.tokens = check_used("Retry", cost, tokens)
        self.after_ms = None if wait is None else to_ms(cast("Duration", wait), "after", least=0)
        self.message = message
        super().__init__(message)


class Reject(Exception):
    """Raise it in a handler: no, and the same again cannot help. The receipt says `handler.rejected`, details.reject has `code`.

    Args:
        code: Your own code, such as `no_such_order`.
        message: One sentence for people.
        cost: What the run cost all the same, as `Result`.
        tokens: How many tokens it used, as `Result`.
        details: More for programs; JSON-able.
    """

    def __init__(
        self, code: str, message: str = "", *, cost: float | None = None, tokens: int | None = None, **details: Any
    ) -> None:
        self.cost, self.tokens = check_used("Reject", cost, tokens)
        self.code = code
        self.message = message
        self.details = details
        super().__init__(f"{code}: {message}")


class Result(Generic[T]):
    """Return it from a handler where the value alone does not say it all.

    Args:
        value: The output.
        confidence: How sure the handler is, 0 to 1.
        cost: What the run cost, in the unit of your choice; its conversation counts it to the millionth. None: what is declared.
        schema: The name of the output's schema, such as `refund.result.v1`.
        tokens: How many tokens the run used, for the budget of the conversation; the receipt has it in `details["tokens"]`.

    Raises:
        ValueError: The confidence is not 0 to 1, the cost not a finite number, the schema no name of one, tokens no int from 0.
        TypeError: Confidence or cost is no number, or the schema no str.
    """

    __slots__ = ("confidence", "cost", "schema", "tokens", "value")

    def __init__(
        self,
        value: T,
        *,
        confidence: float | None = None,
        cost: float | None = None,
        schema: str | None = None,
        tokens: int | None = None,
    ) -> None:
        check_number("Result confidence", confidence, optional=True)
        check_text("Result schema", schema, optional=True)
        if confidence is not None and not 0.0 <= confidence <= 1.0:
            raise ValueError(f"confidence is {confidence!r}, must be 0 to 1")
        if schema is not None and not is_schema(schema):
            raise ValueError(f"schema is {schema!r:.200}, must be lower-case tokens that end in .v<N>")
        self.cost, self.tokens = check_used("Result", cost, tokens)
        self.value = value
        self.confidence = confidence
        self.schema = schema


def check_used(what: str, cost: float | None, tokens: int | None) -> tuple[float | None, int | None]:
    """What a run says that it has used. Raises TypeError or ValueError for what is none."""
    check_number(f"{what} cost", cost, optional=True)
    if cost is not None and not abs(cost) <= sys.float_info.max:  # NaN neither, nor an int too large for a float
        raise ValueError("cost must be a finite number")
    if tokens is not None and (type(tokens) is not int or not 0 <= tokens < 1 << 63):
        raise ValueError(f"tokens is {tokens!r:.40}, must be an int from 0")
    return None if cost is None else float(cost), tokens


def succeeded(
    value: object, *, host: str, schema: str | None = None, kind: Any = Any, cost: float | None = None
) -> Answer:
    """A handler returned: success, or `handler.error` where the value cannot travel.

    What does not fit what the handler says that it returns, such as a half answer with an empty city, is no success that anybody should
    be sure of: confidence 0, and `details["unfit"]` says why. `cost`: what is declared, for a handler that says none.
    """
    result = result_of(value)
    try:
        output = encode_body(result.value)
    except BodyError as error:
        text = f"the handler's result, a {type(result.value).__name__}, {error.message}"
        return failed("handler.error", text, host=host)
    size = len(bytes(output))
    if size > MAX_OUTPUT_BYTES:
        text = f"the handler's result has {size} bytes, at most {MAX_OUTPUT_BYTES}"
        return failed("handler.error", text, host=host)
    unfit = _unfit(bytes(output), kind)
    return make_answer(
        "success",
        output=bytes(output),
        schema=result.schema or schema,
        processing_host=host,
        confidence=result.confidence if unfit is None else 0.0,
        details=_told(unfit, result.tokens),
        cost=cost if result.cost is None else result.cost,
    )


def result_of(value: object) -> Result[Any]:
    """What a handler returned, with what it says beside the value."""
    return value if isinstance(value, Result) else Result(value)


def unfit(result: Result[Any], message: str, details: dict[str, Any], *, host: str, cost: float | None) -> Answer:
    """What it returned does not fit the JSON Schema that it names: `handler.unfit`, tried again as other junk is.

    `cost`: what is declared, for a handler that says none.
    """
    used = {**details, **(_told(None, result.tokens) or {})}
    spent = cost if result.cost is None else result.cost
    return retryable("handler.unfit", f"the handler's result: {message}", used, host=host, cost=spent)


def _told(unfit: str | None, tokens: int | None) -> dict[str, object] | None:
    told = {"unfit": unfit, "tokens": tokens}
    return {name: value for name, value in told.items() if value is not None} or None


def _unfit(output: bytes, kind: Any) -> str | None:
    """Why the output is not what the handler says that it returns."""
    if kind is Any:
        return None
    try:
        decode_body(output, kind)
    except BodyError as error:
        return error.message
    return None


def failed(
    code: str, message: str, details: dict[str, Any] | None = None, *, host: str, cost: float | None = None
) -> Answer:
    """Again cannot help."""
    return make_answer(
        "failed", code, error_message=message, details=_sound(details or {}), processing_host=host, cost=cost
    )


def retryable(
    code: str,
    message: str,
    details: dict[str, Any] | None = None,
    *,
    host: str,
    retry_after_ms: int | None = None,
    cost: float | None = None,
) -> Answer:
    """Again can help."""
    return make_answer(
        "retryable",
        code,
        error_message=message,
        details=_sound(details or {}),
        processing_host=host,
        retry_after_ms=retry_after_ms,
        cost=cost,
    )


def raised(error: BaseException, *, host: str, now_ms: int = 0) -> tuple[Answer, int]:
    """What a handler's exception becomes, and how long the return waits in ms (-1: the ordinary back-off).

    `now_ms` (Unix ms): for a provider that names a moment and not what its own clock says.
    """
    if isinstance(error, Retry):
        after_ms = -1 if error.after_ms is None else error.after_ms
        wait = "" if error.after_ms is None else f" in {error.after_ms / 1000:g} s"
        text = text_of(error, error.message or f"the handler asked to be tried again{wait}")
        used = _told(None, error.tokens)
        answer = retryable("handler.retry", text, used, host=host, retry_after_ms=error.after_ms, cost=error.cost)
        return answer, after_ms
    if isinstance(error, Reject):
        own = {"reject": text_of(error, error.code)} | (_told(None, error.tokens) or {})
        details = own | error.details | own  # in front: of too many the first are kept
        return failed("handler.rejected", text_of(error, error.message), details, host=host, cost=error.cost), -1
    more: dict[str, Any] = {"error": type(error).__name__}
    if isinstance(error, ReachError):
        more["cause"] = error.code
    told = told_by(error, now_ms)
    if told.status is not None:
        more["http_status"] = told.status
    if told.after_ms is not None:  # the provider's Retry-After: as if the handler had raised Retry(after=...)
        return retryable("handler.retry", text_of(error), more, host=host, retry_after_ms=told.after_ms), told.after_ms
    return retryable("handler.error", text_of(error), more, host=host), -1


def text_of(error: BaseException, message: str | None = None) -> str:
    """What an exception says, bounded; an exception that cannot even say it gives its name."""
    name = type(error).__name__
    try:
        if message is not None:
            return plain(str(message))
        said = str(error)
    except Exception:  # noqa: BLE001 - the user's own __str__
        return plain(f"{name}: (its text cannot be had: __str__ raises)")
    return plain(f"{name}: {said}" if said else name)


def _sound(details: dict[str, Any]) -> dict[str, Any]:
    """Details that can be written, and read again: they come from the user, and must never cost the answer itself."""
    try:
        written = bytes(encode_body(details))
        msgspec.json.decode(written)  # a Raw in it may be legal JSON that few can read, such as 1e400
    except (BodyError, msgspec.DecodeError):
        return _shortened(details)
    return details if len(written) <= MAX_DETAILS_BYTES else _shortened(details)


def _shortened(details: dict[str, Any]) -> dict[str, Any]:
    """What of them is text or a number, as text of a bounded length."""
    short = [(name, value) for name, value in details.items() if isinstance(value, str | int | float)]
    return {plain(name)[:MAX_DETAIL_CHARS]: _word(value) for name, value in short[:MAX_DETAILS]}


def _word(value: str | float) -> str:
    try:
        return plain(str(value))[:MAX_DETAIL_CHARS]
    except ValueError:  # an int with more digits than Python writes
        return f"(a {type(value).__name__} that is too long)"
