"""How much is kept, and that the same number stands everywhere."""

import re

from reach.backend.bounds import (
    CONV_KEPT,
    CONV_MS,
    MAX_CONV_FIELDS,
    MAX_MAIL,
    MOST_SPENT,
    ONCE_MS,
    SETTINGS,
    Bounds,
    bounds_of,
)
from reach.backend.scripts import all_scripts
from reach.delivery.conversations import MAX_PAIR_RATE, MAX_SAME_CONTENT
from reach.delivery.planning import MAX_INBOX
from reach.routing.decide import MAX_FANOUT, MOST_FANOUT

DEFAULTS = {setting.name: setting.default for setting in SETTINGS}


def test_without_settings_the_defaults_hold() -> None:
    assert bounds_of({}) == Bounds() == Bounds(2_000, 86_400_000, 10_000, 604_800_000, 100_000)


def test_each_setting_counts_by_itself() -> None:
    assert bounds_of({"max_dead": b"5", "max_events": b"x", "other": b"7"}) == Bounds(max_dead=5)
    assert bounds_of({"dead_age_ms": b"1000", "events_age_ms": None}) == Bounds(dead_age_ms=1_000)


def test_the_page_says_the_defaults_that_routers_have() -> None:
    assert (DEFAULTS["max_inbox"], DEFAULTS["max_fanout"]) == (MAX_INBOX, MAX_FANOUT)
    assert (DEFAULTS["max_pair_rate"], DEFAULTS["max_same_content"]) == (MAX_PAIR_RATE, MAX_SAME_CONTENT)
    assert f"{MOST_FANOUT:,}" in next(setting.what for setting in SETTINGS if setting.name == "max_fanout")


def test_every_script_bounds_mailboxes_alike() -> None:
    texts = [step.text for step in all_scripts().values() if ":mail:" in step.text or "'mail:'" in step.text]
    assert len(texts) > 3
    for text in texts:
        assert re.findall(r"local MAX_MAIL = (\d+)", text) == [str(MAX_MAIL)]
        assert not re.findall(r"mail:[^\n]*MAXLEN[^\n]*\d{3}", text)


def test_every_script_keeps_guards_alike() -> None:
    texts = [step.text for step in all_scripts().values() if "'once:'" in step.text]
    assert len(texts) == 3
    assert all(re.findall(r"local ONCE_MS = (\d+)", text) == [str(ONCE_MS)] for text in texts)


def test_every_script_keeps_conversations_alike() -> None:
    texts = [step.text for step in all_scripts().values() if "'conv:'" in step.text]
    assert len(texts) == 2
    for text in texts:
        told = re.findall(r"local CONV_MS, MAX_CONV_FIELDS, CONV_KEPT = (\d+), (\d+), (\d+)", text)
        assert told == [(str(CONV_MS), str(MAX_CONV_FIELDS), str(CONV_KEPT))]
        assert re.findall(r"local MOST = (\d+)", text) == [str(MOST_SPENT)]
