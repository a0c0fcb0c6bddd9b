"""`intent:` with a model beside the words: what is near in meaning is found, and nothing wrong."""

import numpy as np
import pytest

from reach.routing import meanings
from reach.routing.intents import Intents
from reach.routing.meanings import Meanings
from tests.concepts import embed

SAID = {
    "billing.refund": ["refund of an order", "I want my money back"],
    "shipping.track": ["where is my parcel"],
    "weather": ["will it rain tomorrow"],
}


def ranked(said: dict[str, list[str]], model: Meanings) -> Intents:
    made = Intents(lambda name: said.get(name, ()), model)
    for name in said:
        made.changed(name)
    return made


def first(intents: Intents, text: str) -> str:
    return next((one.capability for one in intents.rank(text)), "")


def test_the_model_finds_what_the_words_do_not() -> None:
    model = Meanings(embed)
    with_model, words_alone = ranked(SAID, model), Intents(lambda name: SAID.get(name, ()))
    for name in SAID:
        words_alone.changed(name)
    with_model.read()
    model.read_all()
    text = "reimburse me in cash"
    assert first(words_alone, text) == ""
    assert first(with_model, text) == "billing.refund"
    assert first(with_model, "do I need an umbrella") == "weather"


def test_nothing_near_is_no_route() -> None:
    model = Meanings(embed)
    intents = ranked(SAID, model)
    intents.read()
    model.read_all()
    assert first(intents, "paint the kitchen blue") == ""


def test_what_the_model_has_not_read_counts_by_its_words() -> None:
    model, said = Meanings(embed), dict(SAID)
    intents = ranked(said, model)
    intents.read()
    model.read_all()
    said["paint.house"] = ["paints a kitchen or a whole house"]
    intents.changed("paint.house")
    assert first(intents, "paint the kitchen blue") == "paint.house"
    assert first(intents, "reimburse me in cash") == "billing.refund"


def test_a_text_without_spaces_is_ranked_by_its_characters() -> None:
    model, said = Meanings(embed), {**SAID, "refund.zh": ["申请退款"]}
    intents = ranked(said, model)
    intents.read()
    model.read_all()
    assert first(intents, "我要退款 money") == "refund.zh"


def test_what_is_gone_is_not_found_and_what_says_the_same_is_not_read_again() -> None:
    model, said = Meanings(embed), {name: list(texts) for name, texts in SAID.items()}
    intents = ranked(said, model)
    intents.read()
    model.read_all()
    intents.changed("weather")
    assert first(intents, "an umbrella") == "weather"
    assert model.unread(100) == {}
    said["weather"].append("the forecast")
    intents.changed("weather")
    intents.read()
    assert list(model.unread(100)) == ["weather"]
    del said["weather"]
    intents.changed("weather")
    assert first(intents, "an umbrella") == ""
    assert model.unread(100) == {}


def test_what_changes_while_it_is_read_stays_unread() -> None:
    model = Meanings(embed)
    model.tell("weather", ["will it rain"])
    read = model.unread(100)
    model.tell("weather", ["bill of the month"])
    model.learn(read, model.embed(["will it rain"]))
    assert model.near("vat") == {}
    model.read_all()
    assert model.near("vat")["weather"] == pytest.approx(1.0)


def test_it_is_read_in_slices() -> None:
    model = Meanings(embed)
    for at in range(10):
        model.tell(f"c{at}", ["rain", "parcel"])
    assert list(model.unread(4)) == ["c0", "c1"]


def test_what_was_asked_is_remembered_and_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(meanings, "MAX_ASKED", 3)
    asked: list[str] = []

    def counting(texts: list[str]) -> meanings.Vectors:
        asked.extend(texts)
        return embed(texts)

    model = Meanings(counting)
    model.tell("weather", ["rain"])
    model.read_all()
    for text in ("a", "b", "c", "a", "d", "a"):
        model.near(text)
    assert asked == ["rain", "a", "b", "c", "d", "a"]
    assert model.unasked(["a", "a", "b"]) == ["b"]


def test_of_many_capabilities_the_nearest_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(meanings, "MAX_LOOKED_AT", 2)
    model = Meanings(embed)
    for name, text in (("a", "rain"), ("b", "rain parcel"), ("c", "parcel")):
        model.tell(name, [text])
    model.read_all()
    assert list(model.near("rain")) == ["a", "b"]


def test_a_model_that_gives_no_vectors_is_named() -> None:
    model = Meanings(lambda texts: np.zeros((len(texts) + 1, 2), dtype=np.float32))
    with pytest.raises(ValueError, match="no vector for each of 2 texts"):
        model.embed(["a", "b"])
