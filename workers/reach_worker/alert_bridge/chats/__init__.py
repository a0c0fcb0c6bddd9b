"""The chat systems, one file each. A new one is a file with `CHAT`, and a line here."""

from collections.abc import Mapping
from typing import Final

from reach_worker.alert_bridge.chats import dingtalk, feishu, generic, slack, wecom
from reach_worker.alert_bridge.chats.port import Chat

CHATS: Final[Mapping[str, Chat]] = {
    "wecom": wecom.CHAT,
    "dingtalk": dingtalk.CHAT,
    "feishu": feishu.CHAT,
    "slack": slack.CHAT,
    "generic": generic.CHAT,
}
