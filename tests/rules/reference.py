"""The reference pages that are made from tables in the code. `python -m tests.rules.reference` writes them anew."""

from collections.abc import Callable

from reach import settings
from reach.backend import keys
from reach.envelope import codes
from tests.rules.files import ROOT

PAGES: dict[str, Callable[[], str]] = {
    "docs/keys.md": keys.markdown,
    "docs/codes.md": codes.markdown,
    "docs/settings.md": settings.markdown,
}


def main() -> None:
    """Write every page."""
    for path, page in PAGES.items():
        (ROOT / path).write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()
