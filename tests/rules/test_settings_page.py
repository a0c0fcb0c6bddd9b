"""docs/settings.md says what the code says."""

from pathlib import Path

from reach.settings import markdown


def test_the_page_is_made_from_the_table() -> None:
    page = Path(__file__).parents[2] / "docs" / "settings.md"
    assert page.read_text() == markdown()
