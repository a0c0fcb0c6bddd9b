"""`ctx.input_required`: a handler asks its caller, gives up its slot, and is called again with the answer."""

import hashlib
from typing import Any

import msgspec

from reach.backend.bounds import MAX_ANSWERS, MAX_ANSWERS_BYTES, MAX_VALUE_BYTES
from reach.envelope.receipt import NULL
from reach.sdk.bodies import BodyError, decode_body, encode_body
from reach.sdk.durations import Duration, maybe_ms
from reach.sdk.outcome import Reject


class Parked(BaseException):
    """A run ends here: what it has asked has no answer yet. No BaseException of the user's, so that no `except Exception` stops it."""

    def __init__(self, prompt: bytes, state: bytes, open_ms: int) -> None:
        self.prompt, self.state, self.open_ms = prompt, state, open_ms
        super().__init__("the message waits for an answer")


class _Given(msgspec.Struct):
    prompt: str
    value: msgspec.Raw
    agent: str = ""  # "": nobody has kept whose question it was, so it is held for one's own


class _Answers(msgspec.Struct):
    state: msgspec.Raw = NULL
    answers: list[_Given] = []


class Questions:
    """What one run asks, in order, and what the message was answered before."""

    def __init__(self, answers: bytes, agent_id: str) -> None:
        """`answers`: as `take` gave them. `agent_id`: whose run it is."""
        self._stored = answers
        self._agent_id = agent_id
        self._read: _Answers | None = None
        self._passed = 0  # answers that were given out, or were to somebody else

    @property
    def state(self) -> Any:
        """What an earlier run has saved; None where none has."""
        return decode_body(bytes(self._known.state), Any)

    def ask(self, prompt: object, kind: Any, state: object, timeout: Duration | None) -> Any:
        """The answer to the next question, read as `kind`.

        Raises:
            Parked: It has none yet.
            Reject: It cannot be asked, or its answer not be read; see `Context.input_required`.
            BodyError: The prompt or the state cannot be written, or has over 64 KiB.
            ValueError: The timeout is no duration up to seven days.
        """
        open_ms = maybe_ms(timeout, "timeout") or 0
        asked, saved = written("the prompt", prompt), written("the state", state) if state is not None else b""
        given = self._known.answers
        while self._passed < len(given):
            number, self._passed = self._passed, self._passed + 1
            try:
                return _read(number, given[number], asked, kind)
            except Reject:
                # Another agent may ask other things, or want them said otherwise: its answers stay, for when it runs again.
                if given[number].agent in {"", self._agent_id}:
                    raise
        if len(given) >= MAX_ANSWERS or sum(len(bytes(one.value)) for one in given) > MAX_ANSWERS_BYTES:
            text = f"a message asks at most {MAX_ANSWERS} questions, and keeps {MAX_ANSWERS_BYTES} bytes of answers"
            raise Reject("too_many_questions", text)
        raise Parked(asked, saved, open_ms)

    @property
    def _known(self) -> _Answers:
        if self._read is None:
            try:
                self._read = msgspec.json.decode(self._stored, type=_Answers) if self._stored else _Answers()
            except msgspec.DecodeError as error:
                raise Reject("answer_unreadable", f"what was answered before is no JSON: {error}") from None
        return self._read


def parked_by(problem: BaseException | None) -> Parked | None:
    """The question with which a handler has ended: also out of a TaskGroup, unless something else went wrong in that."""
    if isinstance(problem, BaseExceptionGroup) and problem.split(Parked)[1] is None:
        while isinstance(problem, BaseExceptionGroup):
            problem = problem.exceptions[0]
    return problem if isinstance(problem, Parked) else None


def written(name: str, value: object) -> bytes:
    """The value as JSON: the same value gives the same bytes in every process.

    Raises:
        BodyError: It cannot be written, or is too large.
    """
    data = bytes(encode_body(value, ordered=True))
    if len(data) > MAX_VALUE_BYTES:
        raise BodyError(f"{name} has {len(data)} bytes, at most {MAX_VALUE_BYTES}", bytes=len(data))
    return data


def _read(number: int, given: _Given, asked: bytes, kind: Any) -> Any:
    if given.prompt != hashlib.sha1(asked, usedforsecurity=False).hexdigest():
        text = f"question {number + 1} is not the one that was answered: a handler must ask the same things in the same order"
        raise Reject("another_question", text)
    try:
        return decode_body(bytes(given.value), kind)
    except BodyError as error:
        raise Reject("answer_unfit", f"the answer to question {number + 1} does not fit: {error.message}") from None
