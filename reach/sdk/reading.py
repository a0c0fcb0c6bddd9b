"""From an envelope to the handler that it is for, and the body as that wants it; and whether what comes back is what it says."""

from typing import Any, NamedTuple

from reach.backend.steps import Answer
from reach.envelope.message import Envelope
from reach.errors import BackendError, ConfigError, EnvelopeError
from reach.log import PacedLog
from reach.sdk.bodies import BodyError, encode_body
from reach.sdk.handlers import Handler, Handlers
from reach.sdk.outcome import failed, result_of, retryable, unfit
from reach.sdk.schema_book import SchemaBook
from reach.sdk.stand_ins import StandIns
from reach.sdk.validating import BodyCheck


class Read(NamedTuple):
    """Who handles it, and what it is given."""

    handler: Handler
    body: Any


class Reading:
    """Reads what an agent was given. A message whose schema no handler names goes to one whose schema reads it.

    One that names nothing of this agent's has come by a fallback, and goes to the handler that this names.
    """

    def __init__(self, handlers: Handlers, book: SchemaBook, stand_ins: StandIns, log: PacedLog, *, host: str) -> None:
        self._handlers, self._stand_ins = handlers, stand_ins
        self._book = book
        self._check = BodyCheck(book)
        self._log = log
        self._host = host

    async def read(self, envelope: Envelope) -> Read | Answer:
        """Handler and body, or the answer where there is none, or the body does not fit."""
        host = self._host
        try:
            handler = self._handlers.find(envelope)
            schema = envelope.payload.schema
            if handler is None and schema is not None:
                handler = self._handlers.find(envelope, await self._book.readers(schema))
            if handler is None:
                handler = await self._standing_in(envelope)
            if handler is None:
                text = self._handlers.missing(envelope)
                return failed("error.unknown_type", text, {"supported": self._handlers.supported()}, host=host)
            if self._handlers.validates:
                await self._validate(handler, envelope)
            return Read(handler, handler.read(envelope))
        except EnvelopeError as error:
            return failed(error.code, error.message, error.details, host=host)
        except (ConfigError, BackendError) as error:  # no extra here, or no Redis just now: another one, or later
            return retryable("handler.error", f"what it is for: {error.message}", {"code": error.code}, host=host)

    async def judged(self, handler: Handler, value: object, cost: float | None) -> Answer | None:
        """Where the agent validates: the answer in place of a result that does not fit the schema which it names; None: it fits.

        The work is done: what can be judged by nothing just now (not stored, unusable, no Redis) goes out as it is, and the log says so.
        `cost`: what is declared, for a handler that says none.
        """
        result = result_of(value)
        schema = result.schema or handler.output_schema
        if not self._handlers.validates or schema is None:
            return None
        try:
            if await self._check.check(schema, bytes(encode_body(result.value)), must=False):
                return None
            problem = "no such schema is stored"
        except BodyError:
            return None  # that it cannot be written is told where it is
        except EnvelopeError as error:
            if error.code == "payload.invalid":
                return unfit(result, error.message, error.details, host=self._host, cost=cost)
            problem = error.message
        except (ConfigError, BackendError) as error:
            problem = error.message
        self._log.warning("result not validated", of=schema, schema=schema, error=problem)
        return None

    async def _standing_in(self, envelope: Envelope) -> Handler | None:
        """The handler of what this agent stands in with, for a message that names none of its own."""
        schema = envelope.payload.schema
        for pattern in await self._stand_ins.patterns(envelope.target.pattern):
            readers = await self._book.readers(schema) if schema is not None else ()
            handler = self._handlers.find(envelope, readers, pattern)
            if handler is not None:
                return handler
        return None

    async def _validate(self, handler: Handler, envelope: Envelope) -> None:
        """By the schema that the handler names, else by the message's. One that is not stored judges nothing, and the log says so."""
        schema = handler.schema or envelope.payload.schema
        if schema is not None and not await self._check.check(schema, envelope.payload.body_bytes, must=False):
            self._log.warning("not validated: no such schema is stored", of=schema, schema=schema)
