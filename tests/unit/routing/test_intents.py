"""`intent:<free text>`: which capability a text means, and that no route is better than a wrong one."""

from collections.abc import Iterable

import pytest

from reach.routing import intents
from reach.routing.decide import decide
from reach.routing.index import CapabilityIndex
from reach.routing.intents import Intents, said_of, words_of
from reach.routing.pattern import parse
from reach.routing.steps import Deliver
from tests.unit.routing.seen import NOW, add, chooser, finish, message, step

SAID: dict[str, list[str]] = {
    "billing.refund": ["gives money back for an order", "I want my money back", "refund my broken phone"],
    "billing.invoice": [
        "writes and sends invoices",
        "please send me the invoice again",
        "wrong VAT number on the bill",
    ],
    "shipping.track": ["says where a parcel is", "where is my package", "my delivery is late"],
    "weather": ["the forecast for a city", "will it rain tomorrow"],
    "订单.none": [],
}


def known(said: dict[str, list[str]] | None = None) -> Intents:
    texts = SAID if said is None else said

    def texts_of(name: str) -> Iterable[str]:
        return texts.get(name, ())

    made = Intents(texts_of)
    for name in texts:
        made.changed(name)
    return made


def best(text: str, of: Intents | None = None) -> str:
    ranked = (of or known()).rank(text)
    return ranked[0].capability if ranked else ""


@pytest.mark.parametrize(
    ("text", "capability"),
    [
        ("give me my money back", "billing.refund"),
        ("refunding a phone that is broken", "billing.refund"),
        ("refunnd for my order", "billing.refund"),
        ("REFUND!!!", "billing.refund"),
        ("Where are my packages?", "shipping.track"),
        ("the bill has a wrong VAT number", "billing.invoice"),
        ("rain in the city tomorrow?", "weather"),
    ],
)
def test_a_text_finds_the_capability_that_it_means(text: str, capability: str) -> None:
    assert best(text) == capability


@pytest.mark.parametrize(
    "text", ["paint a picture of my cat", "zzz qqq", "?!", "", "und jetzt auf Deutsch", "x" * 100_000]
)
def test_what_nobody_is_described_as_finds_nobody(text: str) -> None:
    assert known().rank(text) == []


def test_nothing_is_found_among_nothing() -> None:
    assert known({}).rank("refund") == []


def test_chinese_needs_no_spaces() -> None:
    of = known({"order.refund": ["为订单办理退款", "我要退款"], "order.track": ["查询包裹的位置", "我的快递到哪里了"]})
    assert best("能把钱退款给我吗", of) == "order.refund"
    assert best("快递在哪里", of) == "order.track"
    assert best("明天天气怎么样", of) == ""


def test_words_lose_their_endings_and_their_case() -> None:
    assert words_of("Refunds, refunded; REFUNDING the cities' e-mails") == [
        *("refund", "refund", "refund", "the", "city", "e", "mail"),
    ]
    assert words_of("卡card丢了") == ["卡", "card", "丢", "了", "丢了"]
    assert words_of("y'all rock\u2019n it's") == ["yall", "rockn", "it"]


def test_the_same_question_has_the_same_answer_whatever_the_order_of_registration() -> None:
    forward, backward = known(), known(dict(reversed(SAID.items())))
    for text in ("money", "my order", "send it", "where is the bill for my phone"):
        assert forward.rank(text) == backward.rank(text)


def test_what_changes_is_read_anew_and_what_is_gone_is_not_found() -> None:
    texts = {"pay": ["sends money to a friend"], "cook": ["recipes for dinner"]}
    of = known(texts)
    assert best("send money", of) == "pay"
    texts["pay"] = ["plays the piano"]
    of.changed("pay")
    assert best("send money", of) == ""
    assert best("play the piano", of) == "pay"
    del texts["pay"]
    of.changed("pay")
    assert best("play the piano", of) == ""
    assert len(of) == 1
    for name in ("cook", "never-there"):
        texts.pop(name, None)
        of.changed(name)
    assert len(of) == 0
    assert best("dinner", of) == ""


def test_a_long_description_is_read_to_its_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(intents, "MAX_READ", 30)
    of = known({"a": ["the beginning", "of it all", "and the very remote ending"]})
    assert best("beginning", of) == "a"
    assert best("remote ending", of) == ""


def test_what_was_asked_is_remembered_within_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(intents, "MAX_REMEMBERED", 2)
    of = known()
    first = of.rank("give me my money back, the phone is broken")
    assert of.rank("give me my money back, the phone is broken") == first != []


def test_examples_that_are_no_text_say_what_is_in_them() -> None:
    told = list(said_of("does it", ["one", {"city": "Rome", "days": 3, "also": ["with", ("a", "map")]}, 7]))
    assert told == ["does it", "one", "Rome with a map", ""]


# ---------------------------------------------------------------- in the index and in decisions
def described() -> CapabilityIndex:
    index = CapabilityIndex()
    for agent_id, name, description, examples in (
        ("a", "refund", "gives money back", ["I want my money back"]),
        ("b", "refund", "refunds orders that are broken", ["my order is broken"]),
        ("c", "track", "where a parcel is", ["where is my package"]),
    ):
        add(index, agent_id, capabilities=({"name": name, "description": description, "examples": examples},))
    return index


def found(index: CapabilityIndex, text: str) -> list[str]:
    return [agent.agent_id for agent in index.match(parse(f"intent:{text}"))]


def test_everybody_who_offers_the_capability_is_found_by_what_any_of_them_says() -> None:
    index = described()
    assert found(index, "money back please") == ["a", "b"]
    assert found(index, "a broken order") == ["a", "b"]
    assert found(index, "where is the parcel") == ["c"]
    assert found(index, "sing a song") == []


def test_registrations_that_come_and_go_are_seen_at_once() -> None:
    index = described()
    assert found(index, "sing a song") == []
    add(index, "d", capabilities=({"name": "music", "description": "sings a song"},))
    assert found(index, "sing a song") == ["d"]
    index.apply("gone", "d", b"")
    assert found(index, "sing a song") == []
    index.apply("gone", "b", b"")
    assert found(index, "broken things") == []
    index.load({}, {}, (), {})
    assert found(index, "money back") == []


def test_a_message_goes_to_who_can_do_what_its_text_means() -> None:
    chosen = step(decide(message("intent:money back"), None, chooser(described()), NOW))
    assert isinstance(chosen, Deliver)
    assert chosen.agent in {"a", "b"}


def test_a_text_that_means_nothing_here_waits_and_then_ends_as_not_found() -> None:
    end = finish(decide(message("intent:sing a song"), None, chooser(described()), NOW + 3_000))
    assert end.code == "route.not_found"
    assert "sing a song" in end.message


def test_the_time_that_a_capability_may_take_counts_for_the_text_that_means_it() -> None:
    index = CapabilityIndex()
    capabilities = (
        {"name": "slow", "description": "renders a film", "max_process_ms": 300_000},
        {"name": "quick", "description": "says hello", "max_process_ms": 1_000},
    )
    add(index, "a", capabilities=capabilities)
    assert decide(message("intent:render my film"), None, chooser(index), NOW).max_process_ms == 300_000
    assert decide(message("intent:hello"), None, chooser(index), NOW).max_process_ms == 1_000


@pytest.mark.parametrize("text", ["the", "a", "I want to", "please help me", "我", "我想要", "what is that thing"])
def test_who_asks_and_does_not_say_for_what_means_nobody(text: str) -> None:
    assert best(text) == ""


def test_what_one_wants_counts_and_not_that_one_wants_it() -> None:
    assert best("I want a pony") == ""
    assert best("I want a refund") == "billing.refund"
