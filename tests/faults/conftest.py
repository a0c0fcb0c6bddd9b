"""The table of crash points at the end of a run."""

from collections import Counter

import pytest


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Flows by processes: how many crash points each has, on each backend."""
    rows = [
        value
        for report in terminalreporter.getreports("passed") + terminalreporter.getreports("failed")
        for name, value in report.user_properties
        if name == "crash points"
    ]
    if not rows:
        return
    total: Counter[str] = Counter()
    terminalreporter.section("crash points: flow, (process: steps x before, after, reply lost)")
    for kind, flow, points in sorted(rows):
        total[kind] += sum(points.values())
        told = ", ".join(f"{name}: {count}" for name, count in points.items())
        terminalreporter.write_line(f"{kind:7} {flow:26} {sum(points.values()):5}   ({told})")
    for kind, count in sorted(total.items()):
        flows = sum(row[0] == kind for row in rows)
        terminalreporter.write_line(f"{kind:7} {flows} flows, {count} points")
