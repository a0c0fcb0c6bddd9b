"""The files of the project, as git sees them: what is tracked and what is new, never what is ignored."""

import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def project_files(*suffixes: str) -> list[str]:
    """Paths relative to the root, with one of the suffixes (all files without any), sorted."""
    listing = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
        cwd=ROOT,
        capture_output=True,
        check=True,
        text=True,
    ).stdout
    paths = sorted(path for path in set(listing.split("\0")) if path and (ROOT / path).is_file())
    assert paths, f"git knows no files in {ROOT}"
    return [path for path in paths if not suffixes or path.endswith(suffixes)]


def read(path: str) -> str:
    """The text of a file of the project."""
    return (ROOT / path).read_text(encoding="utf-8")
