"""Rules on Python source, by its syntax tree. Each takes a path and a tree and says what is wrong, as a list; empty is good."""

import ast
from collections.abc import Iterator
from fnmatch import fnmatch

#: what may only be used in its one place: name -> where (globs)
ONE_PLACE: dict[str, tuple[str, ...]] = {
    "time.time": ("reach/clock.py",),
    "time.time_ns": ("reach/clock.py",),
    "datetime.datetime.now": ("reach/clock.py",),
    "datetime.datetime.utcnow": ("reach/clock.py",),
    "asyncio.create_task": ("reach/service.py",),
    "asyncio.ensure_future": ("reach/service.py",),
    "os.environ": (
        "reach/settings.py",
        "reach/cli/*",
        "workers/reach_worker/cli.py",
        "reach/backend/private_server.py",
        "examples/*/driver/*",
    ),
    "os.getenv": ("reach/settings.py", "reach/cli/*", "workers/reach_worker/cli.py"),
}
#: of the module random only this may be used: the generator comes in as an argument
RANDOM_ALLOWED = ("Random", "SystemRandom")

#: where `except Exception` stands around a user's handler, or around a service's run
CATCH_ALL = ("reach/service.py", "reach/sdk/*", "reach/delivery/inbox.py", "reach/testing.py", "reach/adapters/*")

#: who alone may import a package: package -> where (globs)
IMPORTED_BY: dict[str, tuple[str, ...]] = {"redis": ("reach/backend/*",), "hiredis": ("reach/backend/*",)}

#: code that only computes: no event loop, no network, no backend
PURE = (
    "reach/envelope/*",
    "reach/routing/*",
    "reach/delivery/states.py",
    "reach/delivery/retry.py",
    "reach/delivery/deadlines.py",
)
IMPURE_IMPORTS = ("asyncio", "socket", "redis", "opentelemetry", "reach.backend", "threading", "subprocess")


def matches(path: str, globs: tuple[str, ...]) -> bool:
    """Whether one of the globs fits (a star also crosses folders)."""
    return any(fnmatch(path, glob) for glob in globs)


def imports(tree: ast.AST) -> Iterator[tuple[str, int]]:
    """(module, line) of every import, also those inside functions."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from ((f"{node.module}.{alias.name}", node.lineno) for alias in node.names)


def references(tree: ast.AST) -> Iterator[tuple[str, int]]:
    """(dotted name, line) of every use of an imported name; aliases are resolved (`from time import time as t`: t is time.time)."""
    names: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                names[alias.asname or alias.name.split(".")[0]] = (
                    alias.name if alias.asname else alias.name.split(".")[0]
                )
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                names[alias.asname or alias.name] = f"{node.module}.{alias.name}"
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute | ast.Name) and (dotted := _dotted(node)):
            first, _, rest = dotted.partition(".")
            if first in names:
                yield names[first] + ("." + rest if rest else ""), node.lineno


def place_faults(path: str, tree: ast.AST) -> list[str]:
    """The clock, randomness, tasks and the environment are used in their one place only."""
    faults = []
    for name, line in references(tree):
        faults += [
            f"{path}:{line}: {banned} belongs into {' or '.join(places)}"
            for banned, places in ONE_PLACE.items()
            if _inside(name, banned) and not matches(path, places)
        ]
        package, _, function = name.partition(".")
        if package == "random" and function and function.split(".")[0] not in RANDOM_ALLOWED:
            faults.append(f"{path}:{line}: {name}: take a random.Random as an argument")
    return sorted(set(faults))


def task_faults(path: str, tree: ast.AST) -> list[str]:
    """An event loop holds its tasks weakly: only who owns them makes them, also where a loop is asked directly."""
    return [
        f"{path}:{node.lineno}: a task without an owner; use asyncio.TaskGroup, or reach.service.Tasks"
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
        and node.attr == "create_task"
        and not _dotted(node.value).endswith("group")
        and not matches(path, ONE_PLACE["asyncio.create_task"])
    ]


def import_faults(path: str, tree: ast.AST) -> list[str]:
    """Only the backend knows redis; what is pure stays pure."""
    faults = []
    for module, line in imports(tree):
        faults += [
            f"{path}:{line}: only {' '.join(places)} may import {package}"
            for package, places in IMPORTED_BY.items()
            if _inside(module, package) and not matches(path, places)
        ]
        if matches(path, PURE):
            faults += [
                f"{path}:{line}: is pure, and imports {module}"
                for package in IMPURE_IMPORTS
                if _inside(module, package)
            ]
    return faults


def except_faults(path: str, tree: ast.AST) -> list[str]:
    """Everything is caught only around a user's handler and a service's run; elsewhere only to clean up and raise again."""
    faults = []
    for node in ast.walk(tree):
        if isinstance(node, ast.ExceptHandler) and _catches_all(node) and not matches(path, CATCH_ALL):
            last = node.body[-1]
            if not (isinstance(last, ast.Raise) and last.exc is None):
                faults.append(f"{path}:{node.lineno}: catches everything and does not raise it again")
        if isinstance(node, ast.Call) and _dotted(node.func) in {"suppress", "contextlib.suppress"}:
            caught = {_dotted(argument) for argument in node.args}
            if caught & {"Exception", "BaseException"}:
                faults.append(f"{path}:{node.lineno}: suppresses everything")
    return faults


def text_of_error_faults(path: str, tree: ast.AST) -> list[str]:
    """Errors have codes: nobody searches in their text."""
    return [
        f"{path}:{node.lineno}: searches in the text of an error; ask its code"
        for node in ast.walk(tree)
        if isinstance(node, ast.Compare)
        and any(isinstance(operator, ast.In | ast.NotIn) for operator in node.ops)
        and any(
            isinstance(right, ast.Call)
            and _dotted(right.func) in {"str", "repr"}
            and right.args
            and _dotted(right.args[0]) in {"e", "err", "error", "exc", "exception"}
            for right in node.comparators
        )
    ]


def sleep_faults(path: str, tree: ast.AST) -> list[str]:
    """A test waits for a condition. In a loop (that is how a condition is waited for) and in a handler a pause is no fault."""
    faults: list[str] = []

    def look(node: ast.AST) -> None:
        for child in ast.iter_child_nodes(node):
            if isinstance(
                child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.For | ast.AsyncFor | ast.While
            ):
                continue
            if isinstance(child, ast.Call) and _dotted(child.func) in {"time.sleep", "asyncio.sleep", "sleep"}:
                first = child.args[0] if child.args else None
                if not (isinstance(first, ast.Constant) and first.value == 0):
                    faults.append(f"{path}:{child.lineno}: sleeps; wait for a condition")
            look(child)

    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
            look(node)
    return faults


def docstring_faults(path: str, tree: ast.AST) -> list[str]:
    """Every module says what it is for."""
    assert isinstance(tree, ast.Module)
    return [] if not tree.body or ast.get_docstring(tree) else [f"{path}: has no docstring"]


def _catches_all(node: ast.ExceptHandler) -> bool:
    kinds = node.type.elts if isinstance(node.type, ast.Tuple) else [node.type]
    return any(kind is None or _dotted(kind) in {"Exception", "BaseException"} for kind in kinds)


def _inside(name: str, package: str) -> bool:
    return name == package or name.startswith(package + ".")


def _dotted(node: ast.AST | None) -> str:
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute) and (left := _dotted(node.value)):
        return f"{left}.{node.attr}"
    return ""
