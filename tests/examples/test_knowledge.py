"""What the agents of the help desk know: names, intents, documentation, answers."""

import sys

import pytest

from examples.helpdesk.driver import questions
from examples.helpdesk.knowledge import catalogue
from examples.helpdesk.knowledge.catalogue import Entry
from examples.helpdesk.knowledge.lookup import look_up
from examples.helpdesk.knowledge.mentions import CODE, EVERYDAY, SURE, mentions
from examples.helpdesk.knowledge.parse import Parser
from examples.helpdesk.knowledge.words import stem, terms
from examples.helpdesk.knowledge.write import WIDTH, write
from examples.helpdesk.messages import Intent

NAMES = {"fill", "Counter", "groupby", "os", "lru_cache"}


@pytest.fixture(scope="module")
def entries() -> list[Entry]:
    return catalogue.entries()


@pytest.fixture(scope="module")
def parser(entries: list[Entry]) -> Parser:
    return Parser(entries)


def test_the_catalogue_has_public_names_and_runs_nothing_with_side_effects(entries: list[Entry]) -> None:
    names = {entry.name for entry in entries}
    assert len(names) == len(entries) > 10_000
    assert {
        "str.join",
        "os.path.join",
        "print",
        "asyncio.TaskGroup",
        "collections.Counter.most_common",
        "http.server",
    } <= names
    assert not {name for name in names if name.startswith(("builtins.", "posixpath.", "test.", "idlelib."))}
    assert not {"antigravity", "this", "turtle", "idlelib.idle"} & sys.modules.keys()


@pytest.mark.parametrize(
    ("question", "word", "sure"),
    [
        ("how do I fill a list", "fill", EVERYDAY),
        ("what does fill do", "fill", SURE),
        ("call fill() twice", "fill", CODE),
        ("is groupby lazy", "groupby", SURE),
        ("a Counter of words", "Counter", SURE),
        ("the counter is too high", "counter", EVERYDAY),
        ("os.path.join on Windows", "os.path.join", CODE),
        ("lru_cache, and what it costs", "lru_cache", CODE),
    ],
)
def test_how_surely_a_word_is_meant_as_a_name(question: str, word: str, sure: float) -> None:
    assert [each.sure for each in mentions(question, NAMES) if each.text == word] == [sure]


def test_what_stands_between_the_parentheses_of_a_call_or_in_a_text_is_no_name() -> None:
    assert "groupby" not in {each.text for each in mentions("open('groupby') or \"a groupby text\"", NAMES)}


@pytest.mark.parametrize(
    ("word", "same"), [("sorted", "sorting"), ("directories", "directory"), ("copied", "copies"), ("run", "running")]
)
def test_words_of_one_stem(word: str, same: str) -> None:
    assert stem(word) == stem(same)


def test_small_words_say_nothing_and_code_is_split() -> None:
    assert terms("what is the use of it") == []
    assert terms("dedent_tail") == ["dedent", "tail"]


@pytest.mark.parametrize(
    ("question", "name"),
    [
        ("what does functools.lru_cache do?", "functools.lru_cache"),
        ("dataclass(frozen=True): is it hashable?", "dataclasses.dataclass"),
        ("does Path.unlink complain when the file is not there", "pathlib.Path.unlink"),
        ("what is defaultdcit good for", "collections.defaultdict"),
        ("the statistics function that gives quartiles", "statistics.quantiles"),
        ("draw six lottery numbers, none twice", "random.sample"),
        ("how full is my hard disk", "shutil.disk_usage"),
    ],
)
def test_a_question_is_about(parser: Parser, question: str, name: str) -> None:
    intent = parser.intent(question)
    assert intent is not None
    assert intent.name == name


def test_an_intent_says_what_for(parser: Parser) -> None:
    intent = parser.intent("lru_cache: what does typed=True change?")
    assert intent is not None
    assert intent.kind == "function"
    assert "typed" in intent.about
    assert "lru_cache" not in intent.about


@pytest.mark.parametrize("question", ["", "???", "12", "what is it", "qwxzv"])
def test_nothing_to_find(parser: Parser, question: str) -> None:
    assert parser.intent(question) is None


def test_the_shipped_questions_are_understood(parser: Parser) -> None:
    shipped = questions.read(questions.SHIPPED)
    assert len(shipped) == 200
    found = {asked.id: _name(parser, asked.text) in asked.names for asked in shipped}
    assert questions.share(list(found.values())) >= 0.9
    for half in (True, False):
        share = questions.share([found[asked.id] for asked in shipped if questions.tuned(asked) is half])
        assert share >= 0.9, "tuned on" if half else "held out"


def _name(parser: Parser, text: str) -> str:
    intent = parser.intent(text)
    return intent.name if intent else ""


def test_what_the_library_says_is_read_from_it() -> None:
    docs = look_up("functools.lru_cache")
    assert docs.signature == "functools.lru_cache(maxsize=128, typed=False)"
    assert docs.summary == "Least-recently-used cache decorator."
    assert any("typed" in paragraph for paragraph in docs.paragraphs)
    assert docs.kind == "function"


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("os.path", "module"),
        ("str.join", "function"),
        ("collections.Counter", "class"),
        ("math.pi", "value"),
        ("datetime.timedelta.seconds", "attribute"),
    ],
)
def test_every_kind_of_name_can_be_looked_up(name: str, kind: str) -> None:
    docs = look_up(name)
    assert docs.kind == kind
    assert docs.summary


@pytest.mark.parametrize(
    "name", ["functools.nothing", "antigravity", "antigravity.fly", "reach.Agent", "", "no such name"]
)
def test_what_the_library_does_not_have(name: str) -> None:
    with pytest.raises(LookupError):
        look_up(name)
    assert "antigravity" not in sys.modules


def test_every_name_that_the_parser_may_give_can_be_looked_up(entries: list[Entry]) -> None:
    for entry in entries[::5]:
        assert look_up(entry.name).name == entry.name


def test_an_answer_has_the_signature_the_summary_and_the_part_that_was_asked_for() -> None:
    intent = Intent(
        "lru_cache: what does typed=True change?",
        "functools.lru_cache",
        "function",
        ("typed", "True"),
        ("functools.cache",),
    )
    answer = write(intent, look_up(intent.name))
    assert "functools.lru_cache(maxsize=128, typed=False)" in answer
    assert "arguments of different types will be cached" in answer.replace("\n", " ")
    assert "functools.cache." in answer
    assert max(map(len, answer.splitlines())) <= WIDTH


@pytest.mark.parametrize("name", ["os.name", "sys.argv", "struct", "threading.local", "collections.deque", "print"])
def test_an_answer_is_never_empty(name: str) -> None:
    docs = look_up(name)
    assert name in write(Intent("?", name, docs.kind), docs)
