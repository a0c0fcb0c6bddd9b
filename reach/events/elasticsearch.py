"""Events in Elasticsearch or OpenSearch: a data stream, filled by `_bulk`, whose old indices the server lets go.

Each record goes in by `create` under its key: what is there already stays once. Only the record's own text and the fields of FIELDS are
indexed; nothing that a record may hold can make the mapping grow.
"""

import asyncio
import base64
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import msgspec

from reach.errors import ConfigError
from reach.events.elastic_http import Answer, Connection
from reach.events.store import FIELDS, Event, Query, StoreUnavailable, record_of
from reach.log import PacedLog, event_log

SCHEMES = ("es+http", "es+https")
MAX_BULK_BYTES = 5 << 20
PAGE = 1_000
#: The waits between attempts of what the server has no room for now, in seconds; then all of it comes again some time.
PAUSES_S = (0.2, 0.4, 0.8, 1.6)
MAX_PAUSE_S = 5.0
_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,199}")
_BUSY = frozenset({429, 502, 503, 504})
#: What lies in the record itself. Another 400 (too many shards) is the server's trouble, and passes.
_OF_THE_RECORD = frozenset(
    {
        "document_parsing_exception",
        "mapper_parsing_exception",
        "strict_dynamic_mapping_exception",
        "illegal_argument_exception",
    }
)
_KEYWORD = {"type": "keyword", "ignore_above": 1024}
MAPPINGS: dict[str, Any] = {
    "dynamic": False,
    "properties": {
        "@timestamp": {"type": "date"},
        "at_us": {"type": "long"},
        "key": {"type": "keyword"},
        **dict.fromkeys(FIELDS, _KEYWORD),
        "body": {"type": "wildcard"},
        "raw": {"type": "binary"},
        "refused": {"type": "keyword", "index": False, "doc_values": False},
    },
}
log = event_log("reach.events")


class _Gone(StoreUnavailable):
    """What the records are put into is not there, or may not be written."""


class _Item(NamedTuple):
    event: Event
    lines: bytes


class ElasticStore:
    """A data stream. `refused`: how many records the server would not have as they are, and of these `lost`: not even as mere bytes."""

    def __init__(
        self,
        url: str,
        *,
        days: int = 30,
        environ: Mapping[str, str] | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        max_bulk_bytes: int = MAX_BULK_BYTES,
    ) -> None:
        """`environ`: ELASTIC_API_KEY, or ELASTIC_USERNAME and ELASTIC_PASSWORD.

        Raises:
            ConfigError: The URL is none of ours, or the key cannot go into a header.
        """
        parts = urlsplit(url)
        name = parts.path.strip("/")
        if "@" in parts.netloc:
            raise ConfigError(
                "an event store's address holds no user: say ELASTIC_API_KEY, or ELASTIC_USERNAME and -_PASSWORD"
            )
        if parts.scheme not in SCHEMES or not parts.hostname or not _NAME.fullmatch(name) or parts.query:
            raise ConfigError(f"{url[:200]!r} is no event store: es+http://<host>:9200/<data stream>, or es+https")
        self.name, self._days = name, days
        self._http = Connection(parts.scheme.removeprefix("es+"), parts.hostname, parts.port or 9200, environ or {})
        self._sleep, self._max_bulk_bytes = sleep, max_bulk_bytes
        self._log = PacedLog(log)
        self.refused = self.lost = 0

    async def open(self) -> None:
        """Put the retention, the template and the data stream; see EventStore."""
        found = self._good(await self._http.ask("GET", "/"))
        if found.get("version", {}).get("distribution") == "opensearch":
            await self._put_ism()
            settings: dict[str, Any] = {}
        else:
            await self._put(f"/_ilm/policy/{self.name}", {"policy": _ilm(self._days)})
            settings = {"index.lifecycle.name": self.name}
        template = {"settings": settings, "mappings": MAPPINGS}
        whole = {"index_patterns": [self.name], "data_stream": {}, "priority": 500, "template": template}
        await self._put(f"/_index_template/{self.name}", whole)
        made = await self._http.ask("PUT", f"/_data_stream/{self.name}")
        if made.status != 200 and made.error_type != "resource_already_exists_exception":
            if made.status == 400:
                raise ConfigError(f"event store {self.name}: {made.reason}")
            self._good(made)

    async def write(self, events: Sequence[Event]) -> int:
        """Create them, in requests of bounded size; see EventStore."""
        try:
            return await self._write(events)
        except _Gone as error:
            if error.details["status"] == 404:  # somebody has deleted it: made again before the records come again
                await self.open()
            raise

    async def _write(self, events: Sequence[Event]) -> int:
        new = 0
        bulk: list[_Item] = []
        size = 0
        for item in map(_item, events):
            if bulk and size + len(item.lines) > self._max_bulk_bytes:
                new += await self._create(bulk)
                bulk, size = [], 0
            bulk.append(item)
            size += len(item.lines)
        return new + (await self._create(bulk) if bulk else 0)

    async def find(self, query: Query) -> list[dict[str, Any]]:
        """Page by page from the newest; see EventStore. What was written in the last second may not be found yet."""
        found: dict[str, bytes] = {}
        asked: dict[str, Any] = {
            "query": {"bool": {"filter": _filters(query)}},
            "sort": [{"at_us": "desc"}, {"key": "desc"}],
            "_source": ["key", "body", "raw"],
            "track_total_hits": False,
        }
        while len(found) < query.max_found:
            asked["size"] = min(PAGE, query.max_found - len(found))
            answer = await self._http.ask("POST", f"/{self.name}/_search", msgspec.json.encode(asked))
            if answer.error_type == "index_not_found_exception":
                return []
            told = self._good(answer)
            if told.get("timed_out") or told.get("_shards", {}).get("failed"):
                raise StoreUnavailable(f"event store {self.name}: only a part of it answered")
            hits = told["hits"]["hits"]
            for hit in hits:  # after a rollover a record may lie in two indices
                source = hit["_source"]
                found.setdefault(source["key"], base64.b64decode(source.get("raw") or b"") or source["body"].encode())
            if len(hits) < asked["size"]:
                break
            asked["search_after"] = hits[-1]["sort"]
        return [record_of(body) for body in reversed(found.values())]

    async def prune(self, now_us: int) -> int:  # noqa: ARG002
        """Nothing: the server does it, by the policy that `open` has put."""
        return 0

    async def close(self) -> None:
        """Close the connection."""
        await self._http.close()

    # ---------------------------------------------------------------- writing
    async def _create(self, bulk: Sequence[_Item]) -> int:
        """One request; what has no room is asked again, what is refused goes as bytes. How many were new."""
        new, left, reason = 0, list(bulk), ""
        for pause_s in (*PAUSES_S, None):
            answer = await self._http.ask(
                "POST", f"/{self.name}/_bulk", b"".join(item.lines for item in left), "application/x-ndjson"
            )
            if answer.status == 413:
                return new + await self._in_parts(left)
            if answer.status in _BUSY:
                busy, reason = left, answer.reason
            else:
                created, busy, refused, reason = self._judge(left, answer)
                new += created
                left = busy
                if refused:
                    new += await self._as_bytes(refused)
            if not busy:
                return new
            if pause_s is not None:
                await self._sleep(min(max(pause_s, answer.retry_after_s), MAX_PAUSE_S))
        raise StoreUnavailable(f"event store {self.name}: no room for {len(left)} of {len(bulk)} records: {reason}")

    def _judge(self, items: Sequence[_Item], answer: Answer) -> tuple[int, list[_Item], list[tuple[_Item, str]], str]:
        """How many were new; which come again; which never can, and why."""
        outcomes = self._good(answer).get("items", [])
        if len(outcomes) != len(items):
            raise StoreUnavailable(f"event store {self.name}: {len(outcomes)} outcomes of {len(items)} records")
        new, busy, refused, reason = 0, [], [], ""
        for item, outcome in zip(items, outcomes, strict=True):
            told = outcome.get("create", {})
            status = told.get("status", 0)
            if status == 201:
                new += 1
            elif status in _BUSY:
                busy.append(item)
                reason = _reason(told)
            elif status == 400 and told.get("error", {}).get("type") in _OF_THE_RECORD:
                refused.append((item, _reason(told)))
            elif status != 409:  # 409: it is there already
                raise _Gone(f"event store {self.name}: {status} {_reason(told)}", details={"status": status})
        return new, busy, refused, reason

    async def _as_bytes(self, refused: Sequence[tuple[_Item, str]]) -> int:
        """Once more, with nothing in them that can be refused; what is refused even so is told, and keeps nobody waiting."""
        self.refused += len(refused)
        self._log.warning("records refused by the event store", records=len(refused), error=refused[0][1])
        bare = [_bare(item.event, reason) for item, reason in refused]
        answer = await self._http.ask(
            "POST", f"/{self.name}/_bulk", b"".join(item.lines for item in bare), "application/x-ndjson"
        )
        new, busy, never, reason = self._judge(bare, answer)
        if busy:
            raise StoreUnavailable(f"event store {self.name}: no room for {len(busy)} records: {reason}")
        for item, why in never:
            self.lost += 1
            self._log.error("a record cannot be kept", key=item.event.key, bytes=len(item.event.body), error=why)
        return new

    async def _in_parts(self, items: Sequence[_Item]) -> int:
        """Of a request that was too large: halves; one record that is too large alone is told and left out."""
        if len(items) > 1:
            middle = len(items) // 2
            return await self._create(items[:middle]) + await self._create(items[middle:])
        self.refused += 1
        self.lost += 1
        self._log.error("a record is too large to be kept", key=items[0].event.key, bytes=len(items[0].event.body))
        return 0

    # ---------------------------------------------------------------- asking
    async def _put(self, path: str, body: Mapping[str, Any]) -> None:
        self._good(await self._http.ask("PUT", path, msgspec.json.encode(body)))

    async def _put_ism(self) -> None:
        path = f"/_plugins/_ism/policies/{self.name}"
        body = msgspec.json.encode({"policy": _ism(self.name, self._days)})
        made = await self._http.ask("PUT", path, body)
        if made.status == 409:  # there already: written over, for a retention that is another now
            was = self._good(await self._http.ask("GET", path))
            made = await self._http.ask(
                "PUT", f"{path}?if_seq_no={was['_seq_no']}&if_primary_term={was['_primary_term']}", body
            )
        if made.status != 409:  # 409: another archiver has just done it
            self._good(made)

    def _good(self, answer: Answer) -> dict[str, Any]:
        if not 200 <= answer.status < 300:
            raise _Gone(f"event store {self.name}: {answer.status} {answer.reason}", details={"status": answer.status})
        return answer.told


def _item(event: Event) -> _Item:
    made = {"@timestamp": _moment(event.at_us), "at_us": event.at_us, "key": event.key, **event.fields}
    return _lines(event, {**made, "body": event.body.decode()})


def _bare(event: Event, reason: str) -> _Item:
    made = {"@timestamp": _moment(event.at_us), "at_us": event.at_us, "key": event.key, "refused": reason}
    return _lines(event, {**made, "raw": base64.b64encode(event.body).decode()})


def _lines(event: Event, made: Mapping[str, Any]) -> _Item:
    return _Item(event, b'{"create":{"_id":"%s"}}\n%s\n' % (event.key.encode(), msgspec.json.encode(made)))


def _moment(at_us: int) -> str:
    """In ISO 8601, to the microsecond."""
    return (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=at_us)).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _reason(told: Mapping[str, Any]) -> str:
    error = told.get("error") or {}
    return f"{error.get('type', told.get('status'))}: {error.get('reason', '')}"[:300]


def _filters(query: Query) -> list[dict[str, Any]]:
    filters: list[dict[str, Any]] = [{"range": {"at_us": {"gte": query.since_us, "lt": query.until_us}}}]
    filters += [{"terms": {name: list(wanted)}} for name, wanted in query.fields.items()]
    if query.text:
        value = re.sub(r"([*?\\])", r"\\\1", query.text)
        filters.append({"wildcard": {"body": {"value": f"*{value}*", "case_insensitive": True}}})
    return filters


def _ilm(days: int) -> dict[str, Any]:
    hot = {"actions": {"rollover": {"max_age": "1d", "max_primary_shard_size": "50gb"}}}
    return {"phases": {"hot": hot, "delete": {"min_age": f"{days}d", "actions": {"delete": {}}}}}


def _ism(name: str, days: int) -> dict[str, Any]:
    rolls = [{"rollover": {"min_index_age": "1d", "min_primary_shard_size": "50gb"}}]
    goes = [{"state_name": "delete", "conditions": {"min_index_age": f"{days}d"}}]
    return {
        "description": "hop records of reach",
        "default_state": "hot",
        "states": [
            {"name": "hot", "actions": rolls, "transitions": goes},
            {"name": "delete", "actions": [{"delete": {}}], "transitions": []},
        ],
        "ism_template": [{"index_patterns": [name], "priority": 500}],
    }
