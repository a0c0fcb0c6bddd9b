"""The tables at the end of a run: crash points, and how soon things went on after a fault."""

from collections import Counter
from typing import Any

import pytest


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """What the tests of this folder have noted."""
    reports = terminalreporter.getreports("passed") + terminalreporter.getreports("failed")
    noted = [(report.nodeid, name, value) for report in reports for name, value in report.user_properties]
    points = [value for _, name, value in noted if name == "crash points"]
    recoveries = [
        ("valkey" if "[valkey" in nodeid else "redis", *value) for nodeid, name, value in noted if name == "recovery"
    ]
    if points:
        _tell_points(terminalreporter, points)
    if recoveries:
        terminalreporter.section("recoveries: fault, at whom, how long after its end")
        for engine, fault, party, took_s in sorted(recoveries):
            terminalreporter.write_line(f"{engine:7} {fault:30} {party:7} {took_s:5.2f} s")


def _tell_points(terminalreporter: pytest.TerminalReporter, rows: list[Any]) -> None:
    """Flows by processes: how many crash points each has, on each backend."""
    total: Counter[str] = Counter()
    terminalreporter.section("crash points: flow, (process: steps x before, after, reply lost)")
    for kind, flow, points in sorted(rows):
        total[kind] += sum(points.values())
        told = ", ".join(f"{name}: {count}" for name, count in points.items())
        terminalreporter.write_line(f"{kind:7} {flow:26} {sum(points.values()):5}   ({told})")
    for kind, count in sorted(total.items()):
        flows = sum(row[0] == kind for row in rows)
        terminalreporter.write_line(f"{kind:7} {flows} flows, {count} points")
