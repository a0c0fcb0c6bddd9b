"""The rules of deploy/prometheus, by promtool: they are well-formed, and each alert fires when it should and not otherwise."""

import re
import subprocess
from pathlib import Path

import pytest

from tests.monitoring.binaries import find
from tests.rules.files import ROOT, project_files, read

FOLDER = ROOT / "deploy" / "prometheus"
RULES = "deploy/prometheus/rules.yml"
TESTS = ("rules_test.yml", "slo_test.yml")


def alerts() -> list[str]:
    return re.findall(r"^ +- alert: (\w+)$", read(RULES), re.MULTILINE)


def promtool(*arguments: str) -> None:
    done = subprocess.run([find("promtool"), *arguments], cwd=FOLDER, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_promtool_takes_all_rules() -> None:
    rules = [path.rpartition("/")[2] for path in project_files(".yml") if path.startswith("deploy/prometheus/")]
    promtool("check", "rules", *(name for name in rules if name not in {*TESTS, "prometheus.yml"}))


@pytest.mark.parametrize("name", TESTS)
def test_each_alert_fires_when_it_should(name: str) -> None:
    promtool("test", "rules", name)


def test_each_alert_has_a_test_in_which_it_fires_and_one_in_which_it_does_not() -> None:
    text = "".join(read(f"deploy/prometheus/{name}") for name in TESTS)
    cases = re.findall(r"alertname: (\w+)\n +exp_alerts:( \[\])?", text)
    fires = {name for name, nothing in cases if not nothing}
    rests = {name for name, nothing in cases if nothing}
    assert len(alerts()) > 15
    assert fires == rests == set(alerts())


def test_each_alert_says_what_is_wrong_the_first_command_and_where_to_read() -> None:
    page = read("docs/alerts.md")
    blocks = re.split(r"^ +- alert: ", read(RULES), flags=re.MULTILINE)[1:]
    for name, block in zip(alerts(), blocks, strict=True):
        for part in ("severity: ", "summary: ", "command: ", f"runbook: docs/alerts.md#{name.lower()}"):
            assert part in block, f"{name} has no {part}"
        assert f"### {name}\n" in page, f"docs/alerts.md has no section {name}"


def test_promtool_takes_the_configuration_that_is_deployed(tmp_path: Path) -> None:
    config = tmp_path / "prometheus.yml"
    config.write_text(read("deploy/prometheus/prometheus.yml").replace("/etc/prometheus/", f"{FOLDER}/"))
    promtool("check", "config", str(config))
