"""What the agents say to one another: the bodies of the messages."""

import msgspec


class Question(msgspec.Struct, frozen=True):
    """Something a person wants to know."""

    text: str


class Intent(msgspec.Struct, frozen=True):
    """What a question is about (`name`: a name of the standard library; `kind`: module, class, function, method, attribute or data)
    and what for (`about`: the words that matter). `others` are the names that were close."""

    question: str
    name: str
    kind: str
    about: tuple[str, ...] = ()
    others: tuple[str, ...] = ()


class Docs(msgspec.Struct, frozen=True):
    """What the installed library says about a name. `signature` is "" where there is none."""

    name: str
    kind: str
    signature: str
    summary: str
    paragraphs: tuple[str, ...] = ()


class Draft(msgspec.Struct, frozen=True):
    """Everything that an answer is written from."""

    intent: Intent
    docs: Docs


class Answer(msgspec.Struct, frozen=True):
    """The end of it."""

    name: str
    text: str
