"""The reference pages that are made from tables in the code. `python -m tests.rules.reference` writes them anew."""

from collections.abc import Callable

from reach import settings
from reach.backend import keys
from reach.delivery import states
from reach.envelope import codes
from reach.tracing import metrics
from tests.rules.files import ROOT, read

BEGIN, END = "<!-- states:begin -->\n", "<!-- states:end -->\n"
METRICS_BEGIN, METRICS_END = "<!-- metrics:begin -->\n", "<!-- metrics:end -->\n"


def architecture() -> str:
    """The architecture page as it stands, with the diagram of leg states made anew."""
    before, _, rest = read("docs/architecture.md").partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}```mermaid\n{states.mermaid()}```\n{END}{after}"


def metrics_page() -> str:
    """The page of metrics as it stands, with the table made anew."""
    before, _, rest = read("docs/metrics.md").partition(METRICS_BEGIN)
    _, _, after = rest.partition(METRICS_END)
    return f"{before}{METRICS_BEGIN}{metrics.markdown()}{METRICS_END}{after}"


PAGES: dict[str, Callable[[], str]] = {
    "docs/keys.md": keys.markdown,
    "docs/codes.md": codes.markdown,
    "docs/settings.md": settings.markdown,
    "docs/architecture.md": architecture,
    "docs/metrics.md": metrics_page,
}


def main() -> None:
    """Write every page."""
    for path, page in PAGES.items():
        (ROOT / path).write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()
