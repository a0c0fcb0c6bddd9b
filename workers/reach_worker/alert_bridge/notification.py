"""What Alertmanager posts: its webhook, version 4."""

import msgspec

VERSION = "4"


class NotReadable(ValueError):
    """No notification of version 4; the text says what is wrong."""


class Alert(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One alert. `status`: firing or resolved; moments as RFC 3339."""

    status: str
    labels: dict[str, str]
    annotations: dict[str, str] = {}
    starts_at: str = ""
    ends_at: str = ""
    generator_url: str = msgspec.field(name="generatorURL", default="")
    fingerprint: str = ""

    @property
    def firing(self) -> bool:
        """Whether it still holds."""
        return self.status != "resolved"

    @property
    def alert_name(self) -> str:
        """The rule's name."""
        return self.labels.get("alertname") or "unnamed alert"


class Notification(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A group of alerts that were told together. `truncated_alerts`: so many more were left out by Alertmanager (`max_alerts`)."""

    version: str
    status: str
    alerts: list[Alert]
    group_key: str = ""
    truncated_alerts: int = 0
    receiver: str = ""
    external_url: str = msgspec.field(name="externalURL", default="")


_decoder = msgspec.json.Decoder(Notification)


def read(body: bytes) -> Notification:
    """The notification in the body of a request.

    Raises:
        NotReadable: It is none, it has another version, or it tells of no alert.
    """
    try:
        found = _decoder.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise NotReadable(f"no notification of Alertmanager: {error}") from None
    if found.version != VERSION:
        raise NotReadable(f"version {found.version!r} of Alertmanager's webhook; only {VERSION!r} is known")
    if not found.alerts:
        raise NotReadable("a notification without alerts")
    return found
