"""A strict stand-in for Elasticsearch or OpenSearch: what the real one refuses in a request, this refuses too.

It knows templates, data streams, `_bulk` and `_search`, as far as the sink uses them; everything else is an error. The official clients
drive it as well (test_elastic_server.py), which shows that it speaks as they expect. No real server was tried.
"""

import contextlib
import json
import re
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, urlsplit

Told = tuple[int, dict[str, Any]]
#: Looks at a request (method, path, body); an answer of its own, "cut" or "drop" to close the connection before
#: or after the work is done, or None.
Fault = Callable[[str, str, bytes], tuple[int, dict[str, str]] | str | None]

_JSON = re.compile(
    r"application/(json|vnd\.elasticsearch\+json; ?compatible-with=\d+)(; ?charset=utf-8)?", re.IGNORECASE
)
_NDJSON = re.compile(r"application/(x-ndjson|json|vnd\.elasticsearch\+x-ndjson; ?compatible-with=\d+)", re.IGNORECASE)
_BULK_PARAMS = {"refresh", "timeout", "filter_path", "require_data_stream"}
_SEARCH_KEYS = {"query", "sort", "size", "_source", "search_after", "track_total_hits"}


class Refused(Exception):
    def __init__(self, status: int, kind: str, reason: str) -> None:
        self.answer: Told = (status, {"error": {"type": kind, "reason": reason}, "status": status})


class ElasticServer:
    """What it holds. `fault` is asked about each request; `odd`: the reason for which a document is refused, or a status such as 429."""

    def __init__(self, distribution: str = "elasticsearch") -> None:
        self.distribution = distribution
        self.policies: dict[str, Any] = {}
        self.templates: dict[str, Any] = {}
        self.streams: dict[str, dict[str, dict[str, Any]]] = {}
        self.requests: list[tuple[str, str, dict[str, str], bytes]] = []
        self.fault: Fault = lambda method, path, body: None
        self.odd: Callable[[dict[str, Any]], int] = lambda document: 0
        self.url = ""

    @property
    def documents(self) -> dict[str, dict[str, Any]]:
        """Of all streams, by id."""
        return {key: document for stream in self.streams.values() for key, document in stream.items()}

    @contextlib.contextmanager
    def running(self) -> Iterator["ElasticServer"]:
        """On a free port, in a thread."""
        holder = self

        class Handler(_Handler):
            of = holder

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        self.url = f"http://127.0.0.1:{server.server_address[1]}"
        try:
            yield self
        finally:
            server.shutdown()
            thread.join()
            server.server_close()

    # ---------------------------------------------------------------- what is asked
    def answer(self, method: str, target: str, kind: str, body: bytes) -> Told:
        parts = urlsplit(target)
        params = dict(parse_qsl(parts.query, keep_blank_values=True))
        path = [part for part in parts.path.split("/") if part]
        match (method, path):
            case "GET" | "HEAD", []:
                return 200, {"name": "n", "version": self._version(), "tagline": "You Know, for Search"}
            case "POST" | "PUT", ["_bulk"]:
                return self._bulk(None, params, kind, body)
            case "POST" | "PUT", [index, "_bulk"]:
                return self._bulk(index, params, kind, body)
            case "POST", [index, "_search"]:
                return self._search(index, params, _json_of(kind, body))
            case "PUT", ["_ilm", "policy", name] if self.distribution == "elasticsearch":
                _known(params, set())
                _only(_json_of(kind, body), {"policy"})
                self.policies[name] = json.loads(body)["policy"]
                return 200, {"acknowledged": True}
            case "PUT" | "GET", ["_plugins", "_ism", "policies", name] if self.distribution == "opensearch":
                return self._ism(method, name, params, kind, body)
            case "PUT", ["_index_template", name]:
                _known(params, set())
                given = _json_of(kind, body)
                _only(given, {"index_patterns", "data_stream", "priority", "template"})
                _only(given["template"], {"settings", "mappings"})
                policy = given["template"]["settings"].get("index.lifecycle.name")
                if self.distribution == "opensearch" and policy:
                    raise Refused(400, "illegal_argument_exception", "unknown setting [index.lifecycle.name]")
                self.templates[name] = given
                return 200, {"acknowledged": True}
            case "PUT", ["_data_stream", name]:
                return self._make_stream(name, params, body)
        raise Refused(400, "illegal_argument_exception", f"no handler found for uri [{target}] and method [{method}]")

    def _version(self) -> dict[str, Any]:
        number = "9.5.1" if self.distribution == "elasticsearch" else "3.2.0"
        return {"number": number, **({"distribution": "opensearch"} if self.distribution == "opensearch" else {})}

    def _ism(self, method: str, name: str, params: dict[str, str], kind: str, body: bytes) -> Told:
        held = self.policies.get(name)
        if method == "GET":
            if held is None:
                raise Refused(404, "status_exception", "Policy not found")
            return 200, {"_id": name, "_seq_no": held["seq"], "_primary_term": 1, "policy": held["policy"]}
        _known(params, {"if_seq_no", "if_primary_term"})
        given = _json_of(kind, body)
        _only(given, {"policy"})
        if held is not None and params != {"if_seq_no": str(held["seq"]), "if_primary_term": "1"}:
            raise Refused(409, "version_conflict_engine_exception", f"[{name}]: version conflict")
        self.policies[name] = {"policy": given["policy"], "seq": held["seq"] + 1 if held else 0}
        return 201, {"_id": name}

    def _make_stream(self, name: str, params: dict[str, str], body: bytes) -> Told:
        _known(params, set())
        if name in self.streams:
            raise Refused(400, "resource_already_exists_exception", f"data_stream [{name}] already exists")
        if not any(name in template["index_patterns"] for template in self.templates.values()):
            raise Refused(400, "illegal_argument_exception", f"no matching index template found for [{name}]")
        self.streams[name] = {}
        return 200, {"acknowledged": True}

    def _bulk(self, index: str | None, params: dict[str, str], kind: str, body: bytes) -> Told:
        _known(params, _BULK_PARAMS)
        if not _NDJSON.fullmatch(kind):
            raise Refused(406, "media_type_header_exception", f"Content-Type header [{kind}] is not supported")
        if not body.endswith(b"\n"):
            raise Refused(400, "illegal_argument_exception", "The bulk request must be terminated by a newline [\\n]")
        lines = body[:-1].split(b"\n")
        items = []
        for number in range(0, len(lines), 2):
            if number + 1 >= len(lines):
                raise Refused(400, "illegal_argument_exception", f"no source for the action on line [{number + 1}]")
            op, meta = self._action(lines[number], number + 1)
            items.append({op: self._create(op, meta.get("_index", index), meta.get("_id"), lines[number + 1])})
        errors = any("error" in told for item in items for told in item.values())
        return 200, {"took": 1, "errors": errors, "items": items}

    def _action(self, line: bytes, number: int) -> tuple[str, dict[str, Any]]:
        where = f"Malformed action/metadata line [{number}]"
        action = _parsed(line, where)
        if len(action) != 1 or not isinstance(next(iter(action.values())), dict):
            raise Refused(400, "illegal_argument_exception", f"{where}, expected one object")
        ((op, meta),) = action.items()
        if op not in {"create", "index"} or not meta.keys() <= {"_index", "_id"}:
            raise Refused(400, "illegal_argument_exception", f"{where}, unknown: {op} {sorted(meta)}")
        return op, meta

    def _create(self, op: str, index: str | None, key: str | None, line: bytes) -> dict[str, Any]:
        if index is None or index not in self.streams:
            return _failed(404, "index_not_found_exception", f"no such index [{index}]")
        if op != "create":
            return _failed(400, "illegal_argument_exception", "only write ops with an op_type of create are allowed")
        document = _parsed(line, "source")
        template = next(one for one in self.templates.values() if index in one["index_patterns"])
        wrong = _mapping_fault(document, template["template"]["mappings"])
        status = self.odd(document)
        if wrong or status == 400:
            return _failed(400, "document_parsing_exception", wrong or "odd")
        if status:
            return _failed(status, "es_rejected_execution_exception", "rejected")
        if key is not None and key in self.streams[index]:
            return _failed(409, "version_conflict_engine_exception", f"[{key}]: document already exists")
        self.streams[index][key or f"auto-{len(self.streams[index])}"] = document
        return {"_index": f".ds-{index}-000001", "_id": key, "status": 201, "result": "created"}

    def _search(self, index: str, params: dict[str, str], asked: dict[str, Any]) -> Told:
        _known(params, set())
        _only(asked, _SEARCH_KEYS)
        if index not in self.streams:
            raise Refused(404, "index_not_found_exception", f"no such index [{index}]")
        if not 0 <= asked.get("size", 10) <= 10_000:
            raise Refused(400, "illegal_argument_exception", "Result window is too large")
        sort = [next(iter(one.items())) for one in asked.get("sort", [])]
        after = asked.get("search_after")
        if after is not None and len(after) != len(sort):
            raise Refused(400, "illegal_argument_exception", "search_after has not as many values as sort")
        if any(order != "desc" for _, order in sort):
            raise Refused(400, "illegal_argument_exception", "this stand-in sorts downwards only")
        hits = [
            {"_id": key, "_source": document, "sort": [document[name] for name, _ in sort]}
            for key, document in self.streams[index].items()
            if _fits(document, asked.get("query", {"match_all": {}}))
        ]
        hits.sort(key=lambda hit: hit["sort"], reverse=True)  # type: ignore[arg-type,return-value]
        left = [hit for hit in hits if after is None or hit["sort"] < after][: asked.get("size", 10)]
        wanted = asked.get("_source")
        for hit in left:
            if wanted:
                hit["_source"] = {name: value for name, value in hit["_source"].items() if name in wanted}  # type: ignore[attr-defined]
        return 200, {
            "took": 1,
            "timed_out": False,
            "_shards": {"total": 1, "successful": 1, "failed": 0},
            "hits": {"max_score": None, "hits": left},
        }


class _Handler(BaseHTTPRequestHandler):
    of: ElasticServer
    protocol_version = "HTTP/1.1"

    def _serve(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        kind = self.headers.get("Content-Type", "")
        self.of.requests.append((self.command, self.path, dict(self.headers), body))
        fault = self.of.fault(self.command, self.path, body)
        headers: dict[str, str] = {}
        if fault == "cut":
            self.close_connection = True
            return
        if isinstance(fault, tuple):
            status, headers = fault
            told: dict[str, Any] = {"error": {"type": "fault", "reason": "as the test wants"}, "status": status}
        else:
            try:
                status, told = self.of.answer(self.command, self.path, kind, body)
            except Refused as refused:
                status, told = refused.answer
        if fault == "drop":
            self.close_connection = True
            return
        data = json.dumps(told).encode()
        self.send_response(status)
        if self.of.distribution == "elasticsearch":
            self.send_header("X-Elastic-Product", "Elasticsearch")
        accept = self.headers.get("Accept", "")
        self.send_header("Content-Type", accept if accept.startswith("application/vnd") else "application/json")
        self.send_header("Content-Length", str(len(data)))
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)

    do_GET = do_PUT = do_POST = do_HEAD = _serve  # noqa: N815 - names of the base

    def log_message(self, *args: object) -> None:
        """Nothing."""


def _failed(status: int, kind: str, reason: str) -> dict[str, Any]:
    return {"status": status, "error": {"type": kind, "reason": reason}}


def _json_of(kind: str, body: bytes) -> dict[str, Any]:
    if not _JSON.fullmatch(kind):
        raise Refused(406, "media_type_header_exception", f"Content-Type header [{kind}] is not supported")
    return _parsed(body, "request body")


def _parsed(text: bytes, where: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except ValueError as error:
        raise Refused(400, "x_content_parse_exception", f"{where}: {error}") from None
    if not isinstance(found, dict):
        raise Refused(400, "parsing_exception", f"{where}: expected an object")
    return found


def _known(params: dict[str, str], known: set[str]) -> None:
    unknown = sorted(params.keys() - known)
    if unknown:
        raise Refused(400, "illegal_argument_exception", f"request contains unrecognized parameters: {unknown}")


def _only(given: dict[str, Any], known: set[str]) -> None:
    unknown = sorted(given.keys() - known)
    if unknown:
        raise Refused(400, "parsing_exception", f"Unknown key for: {unknown}")


def _mapping_fault(document: dict[str, Any], mappings: dict[str, Any]) -> str:
    if not re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{1,9}Z", str(document.get("@timestamp"))):
        return "data stream timestamp field [@timestamp] is missing or malformed"
    for name, rule in mappings["properties"].items():
        value = document.get(name)
        if rule["type"] in {"keyword", "wildcard", "binary"} and isinstance(value, dict | list):
            return f"failed to parse field [{name}] of type [{rule['type']}]"
        if rule["type"] == "long" and value is not None and type(value) is not int:
            return f"failed to parse field [{name}] of type [long]"
    return ""


def _fits(document: dict[str, Any], query: dict[str, Any]) -> bool:
    ((kind, rule),) = query.items()
    match kind:
        case "match_all":
            return True
        case "bool":
            _only(rule, {"filter"})
            return all(_fits(document, each) for each in rule["filter"])
        case "range":
            ((name, bounds),) = rule.items()
            _only(bounds, {"gte", "lt"})
            return bool(bounds["gte"] <= document[name] < bounds["lt"])
        case "terms":
            ((name, wanted),) = rule.items()
            return document.get(name) in wanted
        case "wildcard":
            ((name, how),) = rule.items()
            _only(how, {"value", "case_insensitive"})
            pieces = re.findall(r"\\.|\*|\?|[^\\*?]+", how["value"], re.DOTALL)
            odd = {"*": ".*", "?": "."}
            pattern = "".join(odd.get(one) or re.escape(one[1:] if one[0] == "\\" else one) for one in pieces)
            return re.fullmatch(pattern, document.get(name, ""), re.IGNORECASE | re.DOTALL) is not None
    raise Refused(400, "parsing_exception", f"unknown query [{kind}]")
