"""The stand-in is honest: the official clients work with it, and it refuses what they could never send."""

import http.client
import json
from collections.abc import Iterator
from urllib.parse import urlsplit

import elasticsearch
import elasticsearch.helpers
import opensearchpy
import opensearchpy.helpers
import pytest

from reach.events.elasticsearch import MAPPINGS
from tests.unit.events.elastic_server import ElasticServer

TEMPLATE = {"settings": {}, "mappings": MAPPINGS}
DOCUMENT = {"@timestamp": "2026-05-28T12:00:00.000001Z", "at_us": 1, "key": "k1", "agent": "refund", "body": "{}"}
SORT = [{"at_us": "desc"}, {"key": "desc"}]


@pytest.fixture
def server() -> Iterator[ElasticServer]:
    with ElasticServer().running() as server:
        server.templates["t"] = {"index_patterns": ["hops"], "template": TEMPLATE}
        server.streams["hops"] = {}
        yield server


def test_the_client_of_elasticsearch_is_served(server: ElasticServer) -> None:
    with elasticsearch.Elasticsearch(server.url) as client:
        assert client.info()["version"]["number"]
        client.ilm.put_lifecycle(name="p", policy={"phases": {}})
        client.indices.put_index_template(name="t", index_patterns=["hops", "more"], data_stream={}, template=TEMPLATE)
        client.indices.create_data_stream(name="more")
        actions = [{"_op_type": "create", "_index": "hops", "_id": f"k{n}", **DOCUMENT, "at_us": n} for n in range(5)]
        assert elasticsearch.helpers.bulk(client, actions) == (5, [])
        done, failed = elasticsearch.helpers.bulk(client, actions, raise_on_error=False)
        assert (done, [one["create"]["status"] for one in failed]) == (0, [409] * 5)  # type: ignore[union-attr]
        query = {"bool": {"filter": [{"terms": {"agent": ["refund"]}}]}}
        page = client.search(index="hops", query=query, sort=SORT, size=2)["hits"]["hits"]
        assert [hit["_source"]["at_us"] for hit in page] == [4, 3]
        after = client.search(index="hops", query=query, sort=SORT, size=2, search_after=page[-1]["sort"])
        assert [hit["_source"]["at_us"] for hit in after["hits"]["hits"]] == [2, 1]
        with pytest.raises(elasticsearch.BadRequestError, match="illegal_argument"):
            client.bulk(operations=[{"create": {}}, DOCUMENT], index="hops", routing="x")
        with pytest.raises(elasticsearch.NotFoundError):
            client.search(index="nowhere", query=query)


def test_the_client_of_opensearch_is_served(server: ElasticServer) -> None:
    server.distribution = "opensearch"
    client = opensearchpy.OpenSearch(server.url)
    try:
        assert client.info()["version"]["distribution"] == "opensearch"
        actions = [{"_op_type": "create", "_index": "hops", "_id": f"k{n}", **DOCUMENT, "at_us": n} for n in range(3)]
        assert opensearchpy.helpers.bulk(client, actions) == (3, [])
        body = {"query": {"wildcard": {"body": {"value": "{*"}}}, "sort": SORT, "size": 9}
        assert len(client.search(index="hops", body=body)["hits"]["hits"]) == 3
    finally:
        client.close()


GOOD = b'{"create":{"_id":"1"}}\n%s\n' % json.dumps(DOCUMENT).encode()
LINES = "application/x-ndjson"


@pytest.mark.parametrize(
    ("path", "kind", "body", "status"),
    [
        ("/hops/_bulk", LINES, GOOD, 200),
        ("/hops/_bulk", LINES, GOOD[:-1], 400),
        ("/hops/_bulk", "text/plain", GOOD, 406),
        ("/hops/_bulk", "", GOOD, 406),
        ("/hops/_bulk?colour=red", LINES, GOOD, 400),
        ("/hops/_bulk", LINES, b'{"create":{"_id":"1"}}\n', 400),
        ("/hops/_bulk", LINES, b'{"create":{"_id":"1","colour":1}}\n{}\n', 400),
        ("/hops/_bulk", LINES, b'{"create":{}\n{}\n', 400),
        ("/hops/_bulk", LINES, b"\n" + GOOD, 400),
        ("/hops/_search", "application/json", b'{"colour":1}', 400),
        ("/hops/_search", "application/json", b'{"size":10001}', 400),
        ("/hops/_search", "application/json", b'{"sort":[{"at_us":"desc"}],"search_after":[1,2]}', 400),
        ("/hops/_search", LINES, b"{}", 406),
        ("/_cat", "application/json", b"{}", 400),
    ],
)
def test_what_a_real_one_refuses_is_refused(
    server: ElasticServer, path: str, kind: str, body: bytes, status: int
) -> None:
    asked = http.client.HTTPConnection(urlsplit(server.url).netloc)
    asked.request("POST", path, body, {"Content-Type": kind})
    assert asked.getresponse().status == status
    asked.close()
