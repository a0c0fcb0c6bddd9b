"""One place for the clock, randomness and tasks; pure packages; no swallowed errors: on the project, and on samples that must fail."""

import ast
from collections.abc import Callable

import pytest

from tests.rules.files import project_files, read
from tests.rules.source_rules import (
    docstring_faults,
    except_faults,
    import_faults,
    place_faults,
    sleep_faults,
    task_faults,
    text_of_error_faults,
)

Rule = Callable[[str, ast.AST], list[str]]
PRODUCT = ("reach/", "workers/", "examples/")
HANDLER_SLEEPS = """
async def test_x():
    async def handler():
        await asyncio.sleep(30)
    await asyncio.sleep(0)
"""


def faults_of(rule: Rule, folders: tuple[str, ...]) -> str:
    paths = [path for path in project_files(".py") if path.startswith(folders)]
    assert paths
    return "\n".join(fault for path in paths for fault in rule(path, ast.parse(read(path), path)))


@pytest.mark.parametrize("rule", [place_faults, except_faults, text_of_error_faults, docstring_faults])
def test_the_product_follows(rule: Rule) -> None:
    faults = faults_of(rule, PRODUCT)
    assert not faults, faults


def test_B062_every_task_is_made_by_its_owner() -> None:
    faults = faults_of(task_faults, PRODUCT) + faults_of(place_faults, PRODUCT)
    assert not faults, faults


def test_imports_keep_to_their_place() -> None:
    faults = faults_of(import_faults, ("reach/", "workers/"))
    assert not faults, faults


@pytest.mark.parametrize("rule", [sleep_faults, text_of_error_faults, docstring_faults])
def test_the_tests_follow(rule: Rule) -> None:
    faults = faults_of(rule, ("tests/",))
    assert not faults, faults


@pytest.mark.parametrize(
    ("rule", "path", "text"),
    [
        (place_faults, "reach/sdk/client.py", "import time\nnow = time.time()"),
        (place_faults, "reach/sdk/client.py", "from time import time as t\nnow = t()"),
        (place_faults, "reach/sdk/client.py", "from datetime import datetime\nnow = datetime.now()"),
        (place_faults, "reach/sdk/client.py", "import random\nx = random.random()"),
        (place_faults, "reach/sdk/client.py", "from random import choice\nx = choice('ab')"),
        (place_faults, "reach/sdk/client.py", "import asyncio\nasyncio.create_task(x())"),
        (place_faults, "reach/sdk/client.py", "import asyncio as a\na.ensure_future(x())"),
        (task_faults, "reach/sdk/client.py", "import asyncio\nasyncio.get_running_loop().create_task(x())"),
        (task_faults, "reach/sdk/client.py", "def f(self):\n    self._loop.create_task(x())"),
        (place_faults, "reach/sdk/client.py", "import os\nurl = os.environ.get('X')"),
        (import_faults, "reach/sdk/client.py", "import redis.asyncio"),
        (import_faults, "workers/reach_worker/roles.py", "from redis import Redis"),
        (import_faults, "reach/routing/decide.py", "import asyncio"),
        (import_faults, "reach/delivery/states.py", "from reach.backend.port import Backend"),
        (import_faults, "reach/envelope/codec.py", "def f():\n    from opentelemetry import trace"),
        (except_faults, "reach/routing/decide.py", "try:\n    x()\nexcept Exception:\n    pass"),
        (
            except_faults,
            "reach/routing/decide.py",
            "try:\n    x()\nexcept (ValueError, Exception) as e:\n    raise X from e",
        ),
        (except_faults, "reach/routing/decide.py", "try:\n    x()\nexcept:\n    y()"),
        (except_faults, "reach/service.py", "from contextlib import suppress\nwith suppress(Exception):\n    x()"),
        (text_of_error_faults, "reach/sdk/client.py", "ok = 'NOSCRIPT' in str(error)"),
        (sleep_faults, "tests/a.py", "import time\ndef test_x():\n    time.sleep(1)"),
        (
            sleep_faults,
            "tests/a.py",
            "import asyncio\nasync def test_x():\n    with y:\n        await asyncio.sleep(0.1)",
        ),
        (docstring_faults, "reach/x.py", "x = 1"),
    ],
)
def test_each_rule_can_fail(rule: Rule, path: str, text: str) -> None:
    assert rule(path, ast.parse(text))


@pytest.mark.parametrize(
    ("rule", "path", "text"),
    [
        (place_faults, "reach/clock.py", "import time\nnow = time.time()"),
        (place_faults, "reach/sdk/client.py", "import time\nnow = time.monotonic()"),
        (
            place_faults,
            "reach/sdk/client.py",
            "import random\ndef f(rng: random.Random) -> float:\n    return rng.random()",
        ),
        (task_faults, "reach/service.py", "import asyncio\ntask = asyncio.create_task(x())"),
        (task_faults, "examples/a.py", "async with asyncio.TaskGroup() as group:\n    group.create_task(x())"),
        (import_faults, "reach/backend/connection.py", "import redis.asyncio, asyncio"),
        (import_faults, "reach/sdk/client.py", "import redistribution"),
        (except_faults, "reach/routing/decide.py", "try:\n    x()\nexcept BaseException:\n    undo()\n    raise"),
        (except_faults, "reach/service.py", "try:\n    x()\nexcept Exception:\n    log()"),
        (text_of_error_faults, "reach/sdk/client.py", "ok = 'a' in str(value)"),
        (sleep_faults, "tests/a.py", HANDLER_SLEEPS),
        (sleep_faults, "tests/a.py", "import time\ndef test_x():\n    while not done():\n        time.sleep(0.01)"),
    ],
)
def test_no_rule_sees_ghosts(rule: Rule, path: str, text: str) -> None:
    assert not rule(path, ast.parse(text))
