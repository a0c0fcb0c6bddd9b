"""What the installed standard library offers: every public name with its docstring.

The list is curated. Modules that do something when they are imported (open a window, start a browser, print a poem) are left out, and
a name counts as public where the documentation lists it: `os.path.join`, not `posixpath.join`; `str.join`, not `builtins.str.join`.
"""

import builtins
import importlib
import inspect
import re
import sys
import types
import warnings
from collections.abc import Iterator

import msgspec

from examples.helpdesk.knowledge import vocabulary

LEFT_OUT = vocabulary.words("left_out")
SUBMODULES = sorted(vocabulary.words("submodules"))


class Entry(msgspec.Struct, frozen=True):
    """One public name.

    `owner` is the class of a method or attribute, else "". `inherited`: the class has it from another public class. `home`: this is the
    name that the object itself goes by, and not a second one under which it can be imported as well.
    """

    name: str
    module: str
    owner: str
    kind: str  # module, class, function, method, attribute or data
    doc: str
    inherited: bool = False
    home: bool = True
    parameters: tuple[str, ...] = ()

    @property
    def last(self) -> str:
        return self.name.rpartition(".")[2]


def entries() -> list[Entry]:
    """All public names, modules included."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of modules and names that will be gone one day
        return list(_entries().values())


def _entries() -> dict[str, Entry]:
    found: dict[str, Entry] = {}
    modules = {name: module for name in _module_names() if (module := _module(name)) is not None}
    for name, module in modules.items():
        if module is not builtins:
            found[name] = Entry(name, name, "", "module", _doc(module))
        for entry in _members(name, module, set(modules)):
            found.setdefault(entry.name, entry)
    return found


def is_offered(module: str) -> bool:
    """Whether it is a module of the library that may be imported here."""
    top = module.partition(".")[0]
    return top in sys.stdlib_module_names and not top.startswith("_") and not {top, module} & LEFT_OUT


def _module_names() -> Iterator[str]:
    yield "builtins"
    for name in sorted(sys.stdlib_module_names):
        if is_offered(name):
            yield name
    yield from SUBMODULES


def _module(name: str) -> types.ModuleType | None:
    try:
        return importlib.import_module(name)
    except ImportError:  # not on this system, or not in this version
        return None


def _members(name: str, module: types.ModuleType, public: set[str]) -> Iterator[Entry]:
    listed = getattr(module, "__all__", None)
    for attribute in [*(listed or ()), *(each for each in dir(module) if not each.startswith("_"))]:
        thing = getattr(module, attribute, None)
        source = getattr(thing, "__module__", None)
        imported = module is not builtins and isinstance(source, str) and source != name and source in public
        own = isinstance(source, str) and (source == name or source.startswith(f"{name}."))
        unlisted = attribute not in listed and not own if listed else imported
        if isinstance(thing, types.ModuleType) or unlisted:
            continue
        full = attribute if module is builtins else f"{name}.{attribute}"
        kind = _kind(thing)
        yield Entry(
            full,
            name,
            "",
            kind,
            _doc(thing) if kind != "data" else "",
            home=not imported and attribute in (listed or (attribute,)),
            parameters=_parameters(thing),
        )
        if isinstance(thing, type) and not imported:
            yield from _attributes(full, name, thing, public)


def _attributes(full: str, module: str, cls: type, public: set[str]) -> Iterator[Entry]:
    for attribute in dir(cls):
        if attribute.startswith("_"):
            continue
        definer = next((each for each in cls.__mro__ if attribute in vars(each)), cls)
        foreign = definer is not cls and not definer.__name__.startswith("_") and definer.__module__ in public
        if foreign and (definer.__module__ == "builtins" or issubclass(cls, BaseException)):
            continue
        thing = inspect.getattr_static(cls, attribute)
        kind = "method" if callable(thing) or isinstance(thing, classmethod | staticmethod) else "attribute"
        documented = kind == "method" or isinstance(thing, property) or inspect.isdatadescriptor(thing)
        yield Entry(
            f"{full}.{attribute}",
            module,
            full,
            kind,
            _doc(thing) if documented else "",
            inherited=foreign,
            parameters=_parameters(thing),
        )


def _kind(thing: object) -> str:
    if isinstance(thing, type):
        return "class"
    return "function" if callable(thing) else "data"


def _parameters(thing: object) -> tuple[str, ...]:
    """The names of the parameters, as far as they are to be had at once (inspect.signature takes seconds for all)."""
    if isinstance(thing, type):
        thing = vars(thing).get("__init__", thing)
    code = getattr(thing, "__code__", None)
    if isinstance(code, types.CodeType):
        return code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    text = getattr(thing, "__text_signature__", None)
    return tuple(re.findall(r"[(,] *([a-z]\w+)", text)) if isinstance(text, str) else ()


def _doc(thing: object) -> str:
    doc = getattr(thing, "__doc__", None)
    return doc if isinstance(doc, str) else ""
