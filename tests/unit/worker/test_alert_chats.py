"""What each chat is sent, and what its answers mean."""

import base64
import json
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reach_worker.alert_bridge.card import card, cut, fit
from reach_worker.alert_bridge.chats import CHATS
from reach_worker.alert_bridge.chats.port import Outgoing, Reply, Target, signature
from reach_worker.alert_bridge.notification import Alert, Notification, NotReadable, read

WALL_MS = 1_700_000_000_000


def notification(*alerts: Alert, truncated: int = 0) -> Notification:
    return Notification(version="4", status="firing", alerts=list(alerts), truncated_alerts=truncated)


def alert(
    name: str = "ReachNoRouter", *, status: str = "firing", summary: str = "No router serves", **labels: str
) -> Alert:
    return Alert(
        status=status,
        labels={"alertname": name, "severity": "critical", **labels},
        annotations={"summary": summary, "command": "reach doctor"},
        starts_at="2026-11-30T10:00:00.123Z",
        fingerprint=f"{name}{labels}",
    )


def sent(chat: str, *notifications: Notification, secret: str = "", lost: int = 0) -> tuple[Outgoing, Any]:
    target = Target("https://chat.example/robot?key=k1", secret)
    outgoing = CHATS[chat].write(target, card(notifications, lost), notifications, WALL_MS)
    return outgoing, json.loads(outgoing.body)


def text(chat: str, body: Any) -> str:
    found = {
        "wecom": lambda: body["markdown"]["content"],
        "dingtalk": lambda: body["markdown"]["text"],
        "feishu": lambda: body["card"]["header"]["title"]["content"] + body["card"]["elements"][0]["content"],
        "slack": lambda: body["text"],
        "generic": lambda: body["title"] + body["text"],
    }[chat]()
    assert isinstance(found, str)
    return found


@pytest.mark.parametrize("chat", CHATS)
def test_every_chat_says_what_fires_where_and_the_first_command(chat: str) -> None:
    _, body = sent(chat, notification(alert(env="prod"), alert("ReachWorkerDown", status="resolved")))
    said = text(chat, body)
    for part in (
        "FIRING 1, RESOLVED 1",
        "ReachNoRouter",
        "No router serves",
        "env=prod",
        "reach doctor",
        "2026-11-30T10:00:00Z",
    ):
        assert part in said
    assert "RESOLVED ReachWorkerDown" in said


@pytest.mark.parametrize(
    ("chat", "firing", "resolved"),
    [
        ("wecom", '<font color="warning">', '<font color="info">'),
        ("feishu", '"template":"red"', '"template":"green"'),
        ("slack", ":red_circle:", ":large_green_circle:"),
        ("generic", '"firing":true', '"firing":false'),
    ],
)
def test_what_is_over_looks_different(chat: str, firing: str, resolved: str) -> None:
    fires, over = notification(alert()), notification(alert(status="resolved"))
    assert firing in sent(chat, fires)[0].body.decode().replace('\\"', '"')
    assert resolved in sent(chat, over)[0].body.decode().replace('\\"', '"')


@pytest.mark.parametrize("chat", ["wecom", "dingtalk", "feishu", "slack"])
def test_no_alert_mentions_anybody_or_brings_markup(chat: str) -> None:
    _, body = sent(chat, notification(alert(summary="<@all> <!channel> @138 <font>", agent="<@x>")))
    said = text(chat, body).replace('<font color="warning">', "").replace("</font>", "")
    assert "<" not in said
    assert chat == "slack" or "@" not in said


@pytest.mark.parametrize(
    ("chat", "most"), [("wecom", 4_096), ("dingtalk", 20_000), ("feishu", 20_480), ("slack", 4_096)]
)
@pytest.mark.parametrize("summary", ["x" * 300, "告警" * 150, "🔥" * 90, '"\\' * 200])
def test_much_is_cut_to_what_the_chat_takes_and_says_how_much_is_missing(chat: str, most: int, summary: str) -> None:
    outgoing, body = sent(chat, notification(*(alert(summary=summary, agent=f"agent-{n}") for n in range(200))))
    said = text(chat, body)
    assert len(said.encode()) <= most
    assert " more" in said
    assert "�" not in said
    if chat in {"dingtalk", "feishu"}:  # these count the whole request
        assert len(said.encode()) < 18_500
    if chat == "feishu":
        assert len(outgoing.body) <= most


def test_a_single_alert_with_endless_text_keeps_its_name_and_command() -> None:
    _, body = sent("wecom", notification(alert(summary="长" * 20_000)))
    assert len(body["markdown"]["content"].encode()) < 4_096
    assert "reach doctor" in body["markdown"]["content"]


def test_several_notifications_are_summarised_by_rule_and_state() -> None:
    many = [notification(alert("ReachCircuitsOpen", agent=f"a{n}")) for n in range(5)]
    many.append(notification(alert("ReachCircuitsOpen", status="resolved", agent="a0"), truncated=3))
    _, body = sent("wecom", *many, lost=7)
    said = body["markdown"]["content"]
    assert "FIRING 4, RESOLVED 1" in said
    assert "FIRING ReachCircuitsOpen (critical): 4 alerts" in said
    assert "6 notifications in one message" in said
    assert "7 notifications before" in said
    assert "3 more alerts were left out" in said


def test_generic_has_every_alert_of_a_summary() -> None:
    _, body = sent("generic", notification(alert(agent="a")), notification(alert(agent="b")))
    assert [one["labels"]["agent"] for one in body["alerts"]] == ["a", "b"]
    assert body["notifications"] == 2
    assert body["alerts"][0]["startsAt"] == "2026-11-30T10:00:00.123Z"


def test_dingtalk_signs_in_the_address() -> None:
    outgoing, _ = sent("dingtalk", notification(alert()), secret="SEC1")
    query = parse_qs(urlsplit(outgoing.url).query)
    assert query["key"] == ["k1"]
    assert query["timestamp"] == [str(WALL_MS)]
    assert query["sign"] == [signature("SEC1", f"{WALL_MS}\nSEC1")]
    assert sent("dingtalk", notification(alert()))[0].url == "https://chat.example/robot?key=k1"


def test_feishu_signs_in_the_body() -> None:
    _, body = sent("feishu", notification(alert()), secret="SEC1")
    assert body["timestamp"] == "1700000000"
    assert body["sign"] == signature("1700000000\nSEC1", "")
    assert "sign" not in sent("feishu", notification(alert()))[1]


def test_a_signature_is_hmac_sha256_in_base64() -> None:
    # RFC 4231, test case 2
    expected = base64.b64encode(
        bytes.fromhex("5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843")
    ).decode()
    assert signature("Jefe", "what do ya want for nothing?") == expected


@pytest.mark.parametrize(
    ("chat", "reply", "good", "again"),
    [
        ("wecom", Reply(200, b'{"errcode":0,"errmsg":"ok"}'), True, False),
        ("wecom", Reply(200, b'{"errcode":45009}'), False, True),
        ("wecom", Reply(200, b'{"errcode":93000,"errmsg":"invalid webhook url"}'), False, False),
        ("wecom", Reply(200, b"<html>"), False, False),
        ("wecom", Reply(200, b"[]"), False, False),
        ("wecom", Reply(502, b""), False, True),
        ("dingtalk", Reply(200, b'{"errcode":0}'), True, False),
        ("dingtalk", Reply(200, b'{"errcode":130101}'), False, True),
        ("dingtalk", Reply(200, b'{"errcode":310000}'), False, False),
        ("feishu", Reply(200, b'{"code":0,"msg":"success"}'), True, False),
        ("feishu", Reply(200, b'{"StatusCode":0}'), True, False),
        ("feishu", Reply(200, b'{"code":11232}'), False, True),
        ("feishu", Reply(200, b'{"code":19021}'), False, False),
        ("slack", Reply(200, b"ok"), True, False),
        ("slack", Reply(429, b""), False, True),
        ("slack", Reply(404, b"no_service"), False, False),
        ("generic", Reply(204, b""), True, False),
        ("generic", Reply(302, b""), False, False),
        ("generic", Reply(503, b""), False, True),
    ],
)
def test_what_an_answer_means(chat: str, reply: Reply, good: bool, again: bool) -> None:
    verdict = CHATS[chat].judge(reply)
    assert (not verdict.why, verdict.again) == (good, again)


@given(st.text(), st.integers(0, 40))
def test_a_cut_is_never_too_long_and_never_inside_a_character(said: str, most: int) -> None:
    found = cut(said, most)
    assert len(found.encode()) <= most
    kept = said.encode("utf-8", "replace").decode()
    assert found == kept or kept.startswith(found.removesuffix("…"))


@given(st.text(max_size=40), st.lists(st.text(max_size=40), max_size=8), st.integers(0, 200))
def test_what_is_fitted_has_the_size_and_counts_what_is_left_out(head: str, items: list[str], most: int) -> None:
    assert len(fit(head, items, most).encode("utf-8", "replace")) <= most


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (b"", "no notification"),
        (b"[]", "no notification"),
        (b'{"version":"4","status":"firing"}', "alerts"),
        (b'{"version":"3","status":"firing","alerts":[]}', "version '3'"),
        (b'{"version":"4","status":"firing","alerts":[]}', "without alerts"),
        (b'{"version":"4","status":"firing","alerts":[{"status":"firing","labels":{"a":1}}]}', "no notification"),
        (b"\xff", "no notification"),
    ],
)
def test_what_is_no_notification_is_told_why(body: bytes, says: str) -> None:
    with pytest.raises(NotReadable, match=says):
        read(body)
