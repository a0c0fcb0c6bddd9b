"""What hop records carry of envelopes and receipts: the whole, a hash, or nothing, as the env says (`privacy`).

Work hands over what it has anyway; everything that costs (hashing, putting a receipt together) happens when records are written.
"""

import hashlib
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final, Literal, Protocol

import msgspec

from reach import ids
from reach.envelope.codes import describe
from reach.envelope.privacy import Privacy, privacy_of

#: The fields of `meta` that say it.
FIELDS: Final = ("privacy", "max_kept_bytes")
#: How old an answer may be for whoever has to ask.
ASK_EVERY_MS = 1_000

Why = Literal["hash", "drop", "large", "full", "unreadable"]
Meta = Callable[[], Awaitable[Mapping[str, str]]]
"""The fields of `meta`, or at least FIELDS of it, as they are now."""


class LeftOut(msgspec.Struct, frozen=True, omit_defaults=True):
    """What stands for a content that a record does not carry.

    Attributes:
        why: The env says so (hash, drop), it is too large (and hashed), there was no room for it while it waited, or it is no JSON.
        bytes: How long the whole was.
        sha256: Of the body of an envelope or the output of a receipt, byte for byte; "" where it is not hashed, or there is none.
    """

    why: Why
    bytes: int = 0
    sha256: str = ""


class Content(Protocol):
    """An envelope or a receipt."""

    @property
    def size(self) -> int:
        """About how many bytes it has."""
        ...

    @property
    def schemas(self) -> tuple[str, ...] | None:
        """What it is of; None: nobody can say."""
        ...

    @property
    def is_ours(self) -> bool:
        """Whether it was made by reach itself: nobody has put anything into it."""
        ...

    def whole(self, at_us: int) -> bytes:
        """All of it, JSON. `at_us`: the moment of its record. Raises ValueError for what is none."""
        ...

    def body(self) -> bytes:
        """What its maker has put into it, as it stands there. Raises ValueError."""
        ...


class EnvelopeContent(msgspec.Struct, frozen=True):
    """An envelope that was checked. `data`: as it was sent; `raw_body`: the part of it that is the body."""

    data: bytes
    raw_body: bytes | msgspec.Raw = b""
    schema: str = ""

    @property
    def size(self) -> int:
        """In bytes."""
        return len(self.data)

    @property
    def schemas(self) -> tuple[str, ...]:
        """That of its payload."""
        return (self.schema,)

    @property
    def is_ours(self) -> bool:
        """No."""
        return False

    def whole(self, at_us: int) -> bytes:  # noqa: ARG002 - it has its own
        """As it was sent."""
        return self.data

    def body(self) -> bytes:
        """Its body."""
        return bytes(self.raw_body)


class _Output(msgspec.Struct):
    output: msgspec.Raw = msgspec.Raw(b"null")
    schema: str | None = None


class ReceiptContent(msgspec.Struct, frozen=True):
    """A receipt.

    Attributes:
        core: The whole receipt where `facts` is None; else what the maker of the answer knows of it.
        details: Of the answer, JSON.
        facts: What goes before the core.
        schema: Of the message that it answers, None = not known.
        is_ours: Reach has made it, as for a message that nobody could be found for.
    """

    core: bytes | str
    details: str = ""
    facts: Mapping[str, str | int | None] | None = None
    schema: str | None = ""
    is_ours: bool = False

    @property
    def size(self) -> int:
        """About how many bytes."""
        return len(self.core) + len(self.details)

    @property
    def schemas(self) -> tuple[str, ...] | None:
        """What it answers, and what it says itself to be."""
        if self.schema is None:
            return None
        try:
            own = _decode_output(self.core).schema
        except (ValueError, RecursionError):
            own = None
        return (self.schema, own or "")

    def whole(self, at_us: int) -> bytes:
        """The receipt, as far as whoever ended the message knows it."""
        core = self.core.encode() if isinstance(self.core, str) else self.core
        told = core
        if self.facts is not None:
            facts = _encode({**self.facts, "finished_at": at_us // 1000})
            inner = core.strip()[1:-1].strip()
            told = b"%s%s,%s}" % (facts[:-1], b"," + inner if inner else b"", b'"details":' + self.details.encode())
        _check(told)
        return told

    def body(self) -> bytes:
        """Its output."""
        return bytes(_decode_output(self.core).output)


_encode = msgspec.json.Encoder().encode
_decode_output = msgspec.json.Decoder(_Output).decode
_decode_object = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


#: What begins so refuses what is no good envelope, and quotes what stands there: nobody knows whether that was a content.
_REFUSALS = ("envelope.", "target.bad_")


def _without_quotes(receipt: bytes) -> bytes:
    """The same; of a refusal with the meaning of its code as words, and of its details only numbers and names."""
    fields = msgspec.json.decode(receipt)
    code = fields.get("code")
    if not isinstance(code, str) or not code.startswith(_REFUSALS):
        return receipt
    details = fields.get("details")
    named = {
        name: value
        for name, value in (details.items() if isinstance(details, dict) else ())
        if isinstance(value, int) or (isinstance(value, str) and ids.is_token(value))
    }
    return _encode({**fields, "error_message": describe(code).meaning, "details": named})


def _check(data: bytes) -> None:
    """Raises ValueError for what is no JSON object of text: it would make the whole batch unreadable."""
    data.decode()
    _decode_object(data)


#: What may be half a character, or a number beyond every float. A look costs far less than to make values of everything.
_odd = re.compile(rb"\\u[dD][89a-fA-F]|[0-9][eE]\+?[0-9]{2}|[0-9]{200}").search


def _check_values(data: bytes) -> None:
    """Raises ValueError for JSON of which readers cannot make values: they would lose the record, or its whole batch."""
    if _odd(data):
        msgspec.json.decode(data)


class Contents:
    """Says of each content what its record carries, by the rules of now. For one event loop.

    `meta` is asked before records with contents are written, at most every `every_ms`; what it has said last holds while it cannot be.
    """

    def __init__(self, env: str, meta: Meta, *, every_ms: int = ASK_EVERY_MS) -> None:
        self._env, self._meta, self._every_ms = env, meta, every_ms
        self._told: dict[str, str] | None = None
        self._privacy = Privacy("drop")
        self._at_ms = 0

    async def refresh(self, now_ms: int) -> None:
        """Know what holds. `now_ms`: of any clock that goes forward.

        Raises:
            BackendError: It cannot be asked.
        """
        if self._told is not None and now_ms - self._at_ms < self._every_ms:
            return
        meta = await self._meta()
        told = {name: meta[name] for name in FIELDS if name in meta}
        if told != self._told:
            self._told, self._privacy = told, privacy_of(told, self._env)
        self._at_ms = now_ms

    @property
    def rules(self) -> object:
        """Another object where other rules hold."""
        return self._privacy

    def keeps(self, schema: str | None) -> bool:
        """Whether contents of this schema are kept as they are. None: nobody can say of which it is."""
        keeping = self._privacy.of((schema,)) if schema is not None else self._privacy.strictest()
        return keeping == "keep"

    def judge(self, content: Content | None, at_us: int) -> tuple[msgspec.Raw, LeftOut | None]:
        """What a record carries of it. None: there was no room to wait in."""
        if content is None:
            return NOTHING, LeftOut("full")
        try:
            return self._judge(content, at_us)
        except (ValueError, RecursionError):  # what is in Redis may have been written by anybody
            return NOTHING, LeftOut("unreadable", content.size)

    def _judge(self, content: Content, at_us: int) -> tuple[msgspec.Raw, LeftOut | None]:
        schemas = content.schemas
        keeping = self._privacy.of(schemas) if schemas is not None else self._privacy.strictest()
        if keeping == "hash" and content.is_ours:
            keeping = "keep"
        if keeping == "drop":
            return NOTHING, LeftOut("drop")
        is_large = content.size > self._privacy.max_bytes
        if keeping == "keep" and not is_large:
            whole = content.whole(at_us)
            _check_values(whole)
            quotes = not content.is_ours or self._privacy.strictest() == "keep"
            return msgspec.Raw(whole if quotes else _without_quotes(whole)), None
        body = content.body()
        digest = hashlib.sha256(body).hexdigest() if body else ""
        return NOTHING, LeftOut("large" if keeping == "keep" else "hash", content.size, digest)


NOTHING: Final = msgspec.Raw()


class MetaSource(Protocol):
    """The part of a backend that knows what an env keeps."""

    @property
    def env(self) -> str: ...

    async def read_meta(self, names: Sequence[str]) -> dict[str, bytes]: ...


async def asked_meta(source: MetaSource) -> dict[str, str]:
    """What is set now.

    Raises:
        BackendError: It cannot be asked.
    """
    found = await source.read_meta(FIELDS)
    return {name: value.decode(errors="replace") for name, value in found.items()}


def asked_contents(source: MetaSource) -> Contents:
    """For a process that is not told of changes: it asks, and knows of them within a second."""
    return Contents(source.env, lambda: asked_meta(source))
