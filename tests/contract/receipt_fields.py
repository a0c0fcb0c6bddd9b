"""The fields that every receipt has (PROTOCOL, section 4)."""

from collections.abc import Mapping

FIELDS = frozenset(
    {
        *("msg_id", "task_id", "leg", "round", "status", "code", "output", "error_message", "details", "schema"),
        *("correlation_id", "target_agent", "target_instance", "processing_host", "version", "duration_ms", "queue_ms"),
        *("attempts", "retry_count", "confidence", "partial", "cost", "via", "retry_after_ms", "finished_at"),
        *("durability", "stored"),
    }
)


def assert_whole(receipt: Mapping[str, object]) -> None:
    """All fields are there, and those that have one type only have it."""
    assert FIELDS - set(receipt) == set()
    assert receipt["status"] in {"success", "failed", "retryable"}
    for name in ("msg_id", "task_id", "code", "correlation_id", "version", "durability"):
        assert isinstance(receipt[name], str), name
        assert receipt[name], name
    for name in ("leg", "round", "duration_ms", "queue_ms", "attempts", "retry_count", "finished_at"):
        assert type(receipt[name]) is int, name
    assert isinstance(receipt["details"], dict)
    for name in ("partial", "stored"):
        assert type(receipt[name]) is bool, name
