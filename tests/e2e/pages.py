"""The code that stands on a page of the documentation, so that the tests run what people read."""

import re

from tests.rules.files import read

_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(path: str, language: str) -> list[str]:
    """The blocks of one language, in order."""
    return [text for found, text in _BLOCK.findall(read(path)) if found == language]


def named(path: str, language: str = "python") -> dict[str, str]:
    """Blocks that say in their first line which file they are: `# refund_agent.py`."""
    files = {}
    for text in blocks(path, language):
        name = text.partition("\n")[0].removeprefix("# ")
        if name.endswith(".py"):
            files[name] = text
    return files


def commands(path: str) -> list[str]:
    """What stands behind the prompts of the console blocks, without comments."""
    lines = [line for text in blocks(path, "console") for line in text.splitlines()]
    return [line.removeprefix("$ ").split("  #")[0].strip() for line in lines if line.startswith("$ ")]
