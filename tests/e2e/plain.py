"""A sender and an agent that know the protocol and a Redis client, and nothing of reach."""

import json
import uuid
from collections.abc import Iterator
from types import TracebackType
from typing import Any, Self

import redis

from tests.waiting import eventually

T = "reach:{dev.0}:"
E = "reach:{dev}:"


class Wire:
    """Commands as they are written in the protocol, replies as they come: bytes, ints and lists."""

    def __init__(self, url: str) -> None:
        self._redis: Any = redis.Redis.from_url(url, protocol=2, socket_timeout=60)
        self._redis.response_callbacks.clear()
        self.agents: list[PlainAgent] = []

    def __call__(self, *command: str | bytes | float) -> Any:
        """Run one command."""
        return self._redis.execute_command(*command)

    def entries(self, key: str) -> list[tuple[str, dict[str, bytes]]]:
        """XRANGE - +."""
        return [(entry[0].decode(), fields_of(entry[1])) for entry in self("XRANGE", key, "-", "+")]

    def records(self, point: str = "") -> list[dict[str, Any]]:
        """The hop records so far, of one point or of all."""
        found = [record for _, entry in self.entries(f"{T}events") for record in json.loads(entry["b"])]
        return [record for record in found if not point or record["point"] == point]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            for agent in self.agents:
                agent.say_goodbye()
        except redis.ConnectionError:
            pass  # the server went first
        self._redis.close()


def fields_of(flat: list[bytes]) -> dict[str, bytes]:
    """The fields of an entry."""
    return {name.decode(): value for name, value in zip(flat[::2], flat[1::2], strict=True)}


class Sender:
    """Section 10: create the mailbox first, XADD to the ingress, read the mailbox."""

    def __init__(self, client: Wire, mailbox: str = "plain.0f3c9a1b2d4e5f60") -> None:
        self.client, self.mailbox = client, mailbox
        self._key = f"{T}mail:{mailbox}"
        client("XADD", self._key, "MAXLEN", "~", 1000, "*", "hello", "1")
        client("PEXPIRE", self._key, 60_000)

    def send(self, pattern: str = "capability:refund", lane: str = "normal", **fields: Any) -> str:
        """Send a request; its msg_id."""
        made = {
            "msg_id": str(uuid.uuid4()),
            "type": "request",
            "timestamp": 1,
            "source": {"agent_id": "plain-sender"},
            "target": {"pattern": pattern},
            "reply_to": self.mailbox,
            "payload": {"body": {"order_id": "ORD-1"}},
        } | fields
        self.client("XADD", f"{T}ingress:{lane}", "*", "e", json.dumps(made))
        return str(made["msg_id"])

    def mail(self, field: str) -> Iterator[dict[str, Any]]:
        """The notices (`n`) or receipts (`r`) so far."""
        for _, entry in self.client.entries(self._key):
            if field in entry:
                yield json.loads(entry[field])

    def receipt(self, msg_id: str, within_s: float = 10.0) -> dict[str, Any]:
        """The one receipt of a message."""

        def found() -> list[dict[str, Any]]:
            return [receipt for receipt in self.mail("r") if receipt["msg_id"] == msg_id]

        receipts = eventually(found, within_s, f"the receipt of {msg_id}")
        assert len(receipts) == 1, receipts
        return receipts[0]


class PlainAgent:
    """Section 10: registers, beats by EVALSHA, reads its lane with XREADGROUP, settles in one of two ways."""

    def __init__(self, client: Wire, agent_id: str, scripts: dict[str, str] | None = None) -> None:
        self.client, self.agent_id = client, agent_id
        self.instance = f"{agent_id}.i1"
        self.shas = {name: client("SCRIPT", "LOAD", text).decode() for name, text in (scripts or {}).items()}
        self._box = f"{agent_id}.control.77aa"
        client.agents.append(self)

    def register(self, *capabilities: str) -> dict[str, Any]:
        """XADD control, and wait for the notice."""
        key = f"{T}mail:{self._box}"
        self.client("XADD", key, "*", "hello", "1")
        self.client("PEXPIRE", key, 60_000)
        declared = {
            "op": "register",
            "reply_to": self._box,
            "agent_id": self.agent_id,
            "instance_id": self.instance,
            "capabilities": [{"name": name} for name in capabilities],
        }
        self.client("XADD", f"{E}control", "*", "c", json.dumps(declared))

        def answered() -> list[bytes]:
            return [entry["n"] for _, entry in self.client.entries(key) if "n" in entry]

        notice: dict[str, Any] = json.loads(eventually(answered, 10, "the notice")[0])
        return notice

    def beat(self) -> int:
        """EVALSHA beat; 1 = known."""
        argv = (self.agent_id, self.instance, '{"state":"ready"}')
        return int(self.client("EVALSHA", self.shas["beat"], 1, f"{E}agents", *argv)[0])

    def take(self, lane: str = "normal", within_s: float = 10.0) -> tuple[str, dict[str, str]]:
        """XREADGROUP one entry: (hand, fields)."""
        key = f"{T}inbox:{self.agent_id}:{lane}"
        command = ("XREADGROUP", "GROUP", "agent", self.instance, "COUNT", 1, "BLOCK", round(within_s * 1000))
        read = self.client(*command, "STREAMS", key, ">")
        assert read, f"nothing came to {key}"
        hand, flat = read[0][1][0]
        return hand.decode(), {name: value.decode() for name, value in fields_of(flat).items()}

    def say_goodbye(self) -> None:
        """XGROUP DELCONSUMER where nothing is pending, which else would be lost."""
        for lane in ("high", "normal", "low"):
            key = f"{T}inbox:{self.agent_id}:{lane}"
            if self.client("EXISTS", key) and not self.client("XPENDING", key, "agent", "-", "+", 1, self.instance):
                self.client("XGROUP", "DELCONSUMER", key, "agent", self.instance)

    def renew(self, hand: str, lane: str = "normal") -> list[bytes]:
        """XCLAIM JUSTID on itself; empty = lost."""
        key = f"{T}inbox:{self.agent_id}:{lane}"
        return list(self.client("XCLAIM", key, "agent", self.instance, 0, hand, "JUSTID"))

    def answer_by_entry(self, fields: dict[str, str], hand: str, receipt: dict[str, Any]) -> None:
        """Without scripts: XADD receipts, and nothing else."""
        entry = ("m", fields["m"], "l", fields["l"], "h", hand, "r", json.dumps(receipt))
        self.client("XADD", f"{T}receipts", "*", *entry)

    def answer_by_script(self, fields: dict[str, str], hand: str, output: Any) -> str:
        """EVALSHA settle; the verdict."""
        core = {
            "status": "success",
            "code": "ok",
            "output": output,
            "error_message": None,
            "schema": None,
            "processing_host": "plain",
            "confidence": None,
            "partial": False,
            "cost": None,
            "via": None,
            "retry_after_ms": None,
        }
        argv = (self.agent_id, 1, fields["m"], fields["l"], hand, self.instance)
        answer = ("success", "ok", json.dumps(core), "{}", -1)
        return str(self.client("EVALSHA", self.shas["settle"], 1, f"{T}due", *argv, *answer)[0].decode())
