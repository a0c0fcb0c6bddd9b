"""docs/troubleshooting.md holds: each symptom is brought about on a real server, and each command of its section shows what the page says.

A section is `### title`; what brings it about is in tests/e2e/symptoms, under the same title.
"""

import re
from contextlib import AsyncExitStack
from itertools import cycle
from typing import NamedTuple

import pytest

from reach.errors import ConfigError
from tests import servers
from tests.e2e.symptoms import agents, messages, places
from tests.e2e.symptoms.scene import SYMPTOMS, Scene, is_in
from tests.rules.files import ROOT, read

pytestmark = [
    pytest.mark.leaves_work(
        why="some are cut off on purpose, and a router in the test's loop is gone before it could sweep"
    ),
]
PAGE = "docs/troubleshooting.md"
DRIVERS = (agents, messages, places)


class Shown(NamedTuple):
    """A command, and the lines that its output must have."""

    command: str
    lines: list[str]


def sections() -> dict[str, list[Shown]]:
    """The symptoms of the page: title -> commands, in order."""
    found: dict[str, list[Shown]] = {}
    for part in re.split(r"^### ", read(PAGE), flags=re.MULTILINE)[1:]:
        title, _, rest = part.partition("\n")
        shown = found.setdefault(title.strip(), [])
        for block in re.findall(r"^```console\n(.*?)^```$", rest, re.MULTILINE | re.DOTALL):
            for line in block.splitlines():
                if line.startswith("$ "):
                    shown.append(Shown(line[2:], []))
                else:
                    shown[-1].lines.append(line)
    return found


def test_every_section_is_brought_about_and_nothing_else_is() -> None:
    assert list(sections()) == sorted(SYMPTOMS, key=list(sections()).index)
    for title, shown in sections().items():
        assert shown, f"{title}: no command"
        assert all(one.lines for one in shown), f"{title}: a command that shows nothing"


def engines() -> list[str]:
    """Those of this run; what is missing is told by the server's own fixture."""
    try:
        return servers.selected()
    except ConfigError:
        return ["none"]


# What commands print is the same on every engine: each symptom is brought about on one of them in turn.
ON = list(zip(cycle(engines()), sections(), strict=False))


@pytest.mark.parametrize(("engine", "title"), ON, indirect=["engine"], scope="session", ids=[title for _, title in ON])
async def test_each_command_shows_the_cause(redis_url: str, title: str) -> None:
    async with AsyncExitStack() as stack:
        scene = Scene(redis_url, stack)
        await SYMPTOMS[title](scene)
        for command, lines in sections()[title]:
            await scene.shows(command, lines)


def test_the_page_leads_on() -> None:
    links = re.findall(r"\]\(([^)]+)\)", read(PAGE))
    assert links
    for link in links:
        path, _, anchor = link.partition("#")
        text = read(f"docs/{path}")
        heads = {_anchor(head) for head in re.findall(r"^#+ (.+)$", text, re.MULTILINE)}
        assert (ROOT / "docs" / path).exists(), link
        assert not anchor or anchor in heads, link


def _anchor(head: str) -> str:
    """As the renderers of Markdown name a head."""
    return re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-")


def test_a_line_of_the_page_is_found_only_where_it_stands() -> None:
    assert is_in("route.sent ... refund-1", "x route.sent          refund-1 y")
    assert is_in("1/1 ... 0", "1/1        0")
    assert not is_in("route.sent ... refund-1", "route.sent\nrefund-1")
    assert not is_in("route.sent ... refund-1", "route.sent refund-2")
