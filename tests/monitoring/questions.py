"""What the dashboards ask, and with which parts around it."""

import json
import re
from typing import Any

from tests.rules.files import project_files, read

FOLDER = "deploy/grafana/dashboards/"


def dashboards() -> dict[str, dict[str, Any]]:
    """By file name."""
    return {
        path.removeprefix(FOLDER): json.loads(read(path)) for path in project_files(".json") if path.startswith(FOLDER)
    }


def questions() -> dict[str, str]:
    """Every expression of every panel, by dashboard, panel and letter."""
    return {
        f"{name} / {panel['title']} / {target['refId']}": target["expr"]
        for name, board in dashboards().items()
        for panel in board["panels"]
        for target in panel["targets"]
    }


def filled_in(expression: str) -> str:
    """The expression as Grafana asks it, for all envs and a short interval."""
    return expression.replace("$__rate_interval", "15s").replace("$env", ".*")


def names_in(text: str) -> set[str]:
    """The metrics of reach that an expression names."""
    return set(re.findall(r"(?<![\w:-])reach_[a-z_]+", text))
