"""The demo as a user starts it: the help desk on real processes, with kills, and nothing left behind."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from reach.cli import demo as command
from reach.cli import main
from tests.e2e import processes
from tests.waiting import eventually

pytestmark = [pytest.mark.processes, pytest.mark.timeout(90)]


def demo(*arguments: str, redis_url: str = "") -> subprocess.CompletedProcess[str]:
    done = processes.reach("demo", *arguments, REACH_REDIS_URL=redis_url)
    return subprocess.CompletedProcess(done.args, done.returncode, done.stdout.decode(), done.stderr.decode())


def test_a_run_with_kills_loses_nothing() -> None:
    done = demo("--count", "40")
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr == ""
    assert "\x1b" not in done.stdout, "colours off a terminal"
    said = " ".join(done.stdout.split())
    assert "kill -9 docs-lookup-0" in said
    assert "success ok 40 40 40 120" in said
    assert "had begun: run again by docs-lookup-0" in said
    assert "nothing lost" in said
    assert "nothing answered twice" in said
    assert "tuned on" in said
    assert "held out" in said
    for point in ("message.received", "route.matched", "route.sent", "agent.received", "agent.responding"):
        assert point in said


def test_questions_of_ones_own(tmp_path: Path) -> None:
    path = tmp_path / "own.txt"
    path.write_text("what is textwrap.dedent for\n", "utf-8")
    done = demo("--ask", "what does functools.lru_cache do?", "--ask", "qwxzv", "--file", str(path))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "functools.lru_cache(maxsize=128, typed=False)" in done.stdout
    assert "No answer: no word of the question has to do with the standard library." in done.stdout
    assert "textwrap.dedent(text)" in done.stdout
    assert "kill" not in done.stdout


def test_a_server_that_is_not_there_is_told_in_a_sentence() -> None:
    done = demo("--ask", "what is zip", redis_url=f"redis://127.0.0.1:{processes.free_port()}")
    assert done.returncode == 1
    assert done.stderr.startswith("FAILED: ")
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("line", ["{", '{"object": "map"}'])
def test_a_file_that_cannot_be_read_is_a_matter_of_usage(tmp_path: Path, line: str) -> None:
    path = tmp_path / "own.jsonl"
    path.write_text(line, "utf-8")
    done = demo("--file", str(path))
    assert done.returncode == 2
    assert "line 1" in done.stderr


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks for processes in /proc")
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_nobody_outlives_the_demo(number: signal.Signals) -> None:
    with subprocess.Popen(
        [sys.executable, "-m", "reach.cli", "demo"],
        env=processes.environ(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as running:
        assert running.stdout is not None
        for text in running.stdout:
            if "all there" in text:
                break
        left = children_of(running.pid)
        assert len(left) >= 7, "a server, two routers, four agents"
        running.send_signal(number)
        eventually(lambda: not any(map(alive, left)), 15.0, "the end of every process")
        running.stdout.read()
    assert running.returncode != 0


def children_of(pid: int) -> list[int]:
    """All descendants of a process."""
    parents = {int(path.name): stat(int(path.name)) for path in Path("/proc").iterdir() if path.name.isdigit()}
    found = [pid]
    for parent in found:
        found += [child for child, (_, ppid) in parents.items() if ppid == parent]
    return found[1:]


def alive(pid: int) -> bool:
    """Whether it runs; a dead one that nobody has waited for does not."""
    return stat(pid)[0] not in {"", "Z", "X"}


def stat(pid: int) -> tuple[str, int]:
    """(state, parent) of a process; ("", 0) when it is gone."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return "", 0
    state, parent = text.rpartition(")")[2].split()[:2]
    return state, int(parent)


def test_the_working_directory_does_not_matter(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "reach.cli", "demo", "--help"],
        env=processes.environ(),
        cwd=tmp_path,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert done.returncode == 0
    assert "--ask QUESTION" in done.stdout
    assert done.stdout.startswith("Usage: reach demo")


def test_help_is_help_also_where_the_desk_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "Usage:" in demo("--help").stdout
    monkeypatch.setattr(command, "ROOTS", ())
    result = CliRunner().invoke(main, ["demo", "--help"])
    assert result.exit_code == 0
    assert "Usage: main demo" in result.stdout
    assert "--ask" in result.stdout
    assert CliRunner().invoke(main, ["demo"]).exit_code == 69
