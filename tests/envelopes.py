"""Envelopes for tests: the example of the field, and the least one with changes."""

import json
from typing import Any

MSG_ID = "a3f2c1e4-9b8d-4f3a-8c2e-1a2b3c4d5e6f"

EXAMPLE = (
    b'{"msg_id":"a3f2c1e4-9b8d-4f3a-8c2e-1a2b3c4d5e6f","type":"intent.request","version":"1.0",'
    b'"timestamp":1735113600123,"source":{"agent_id":"intent-parser-01","node_id":"node-a"},'
    b'"target":{"pattern":"capability:refund","scope":"all"},"correlation_id":"conv-8877","ttl_ms":30000,"priority":5,'
    b'"payload":{"schema":"refund.request.v1","body":{"order_id":"ORD-20241225-001"}},'
    b'"traces":{"previous_hops":["intent-parser-01"],"current_hop":2}}'
)


def fields(**changes: Any) -> dict[str, Any]:
    """The least valid envelope as a dict, with these top-level fields set; a value of ... takes a field away."""
    whole: dict[str, Any] = {
        "msg_id": MSG_ID,
        "type": "request",
        "timestamp": 1,
        "source": {"agent_id": "a"},
        "target": {"pattern": "agent_id:b"},
        **changes,
    }
    return {name: value for name, value in whole.items() if value is not ...}


def raw(**changes: Any) -> bytes:
    """The same as JSON."""
    return json.dumps(fields(**changes)).encode()


def with_body(body: bytes, *, space: bytes = b"") -> bytes:
    """The example with this body, byte for byte."""
    return EXAMPLE.replace(b'"body":{"order_id":"ORD-20241225-001"}', b'"body":' + space + body)
