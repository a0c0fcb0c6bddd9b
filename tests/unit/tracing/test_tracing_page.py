"""docs/tracing.md names each span as it is exported, and every variable that is read."""

import re

from reach.tracing.spans import SHAPES
from tests.rules.files import project_files, read

PAGE = "docs/tracing.md"
ELSEWHERE = {"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", "OTEL_METRIC_EXPORT_INTERVAL"}  # docs/metrics.md


def test_each_point_that_has_a_span_of_its_own_form_stands_in_the_table() -> None:
    row = re.compile(r"^\| `(\S+)` \| `([^`]+)`[^|]* \| (\w+) \|", re.MULTILINE)
    rows = {point: tuple(said) for point, *said in row.findall(read(PAGE))}
    told = {
        point: (shape.name.replace("{chosen}", "NAME"), shape.kind.name)
        for point, shape in SHAPES.items()
        if point != "message.rejected"  # as message.received, which it stands for
    }
    assert rows == told


def test_every_variable_that_is_read_stands_on_its_page() -> None:
    sources = [read(path) for path in project_files(".py") if path.startswith(("reach/", "workers/"))]
    names = {name for text in sources for name in re.findall(r"\bOTEL_[A-Z_]+[A-Z]\b", text)}
    assert len(names) > 8
    assert {name for name in names if name not in read(PAGE)} <= ELSEWHERE
    assert all(name in read("docs/metrics.md") for name in ELSEWHERE)
