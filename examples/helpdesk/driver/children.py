"""Child processes that end with the driver, however it ends, also by kill -9.

All children join the process group of a guard: a shell that waits on a pipe whose other end only the driver holds. When the pipe closes
without a word, the driver is gone, and the guard kills the group. A child joins before its copy of the pipe is closed, so there is no
moment at which it could be missed.
"""

import os
import signal
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

ROOT = Path(__file__).parents[3]
_STOP_S = 4.0
_GUARD = """trap '' HUP INT TERM; read -r word; [ "$word" = done ] && exit; rm -rf -- "$1"; kill -9 0"""


class Children:
    """Python programs by name, each with a log file of its own in `directory`, which is removed at the end."""

    def __init__(self, environ: dict[str, str]) -> None:
        paths = [str(ROOT), str(ROOT / "workers"), *filter(None, [os.environ.get("PYTHONPATH")])]
        self._environ = {**os.environ, **environ, "PYTHONPATH": os.pathsep.join(paths), "PYTHONUNBUFFERED": "1"}
        self._home = tempfile.TemporaryDirectory(prefix="reach-demo-", ignore_cleanup_errors=True)
        self.directory = Path(self._home.name)
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self._guard = subprocess.Popen(
            ["/bin/sh", "-c", _GUARD, "sh", str(self.directory)], stdin=subprocess.PIPE, process_group=0
        )

    def start(self, name: str, module: str, *arguments: str) -> None:
        """Run `python -m module`. What it prints goes into its log."""
        with self._log(name).open("ab") as log:
            self._running[name] = subprocess.Popen(
                [sys.executable, "-m", module, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=self._environ,
                process_group=self._guard.pid,
            )

    def pid(self, name: str) -> int:
        return self._running[name].pid

    def freeze(self, name: str) -> None:
        """SIGSTOP: it keeps what it has in its hands, and what the server hands to it now."""
        self._running[name].send_signal(signal.SIGSTOP)

    def kill(self, name: str) -> None:
        """Kill -9, and wait for its end."""
        child = self._running.pop(name)
        child.kill()
        child.wait()

    def ended(self) -> str:
        """What to say about a child that ended by itself; "" while all of them run."""
        for name, child in self._running.items():
            if child.poll() is not None:
                tail = self._log(name).read_text(errors="replace").strip().splitlines()[-5:]
                return f"{name} ended with status {child.returncode}: {' | '.join(tail) or 'it printed nothing'}"
        return ""

    def stop(self) -> None:
        """SIGTERM, kill -9 for who does not end within a few seconds; then the guard goes too. Twice is once."""
        for child in self._running.values():
            child.terminate()
        for child in self._running.values():
            with suppress(subprocess.TimeoutExpired):
                child.wait(_STOP_S)
            child.kill()
            child.wait()
        self._running.clear()
        if self._guard.poll() is None:
            with suppress(BrokenPipeError):
                self._guard.communicate(b"done\n")
        self._home.cleanup()

    def _log(self, name: str) -> Path:
        return self.directory / f"{name}.log"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
