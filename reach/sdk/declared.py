"""What a program hands over, checked where it does so: one sentence there is worth more than Python's own words from further down."""

from collections.abc import Mapping, Sequence

from reach.envelope.message import MAX_PRIORITY, MIN_PRIORITY
from reach.sdk.budgets import check_budget


def check_text(name: str, value: object, *, optional: bool = False) -> None:
    """Raises TypeError unless it is a str, or None where that is allowed."""
    if not (isinstance(value, str) or (optional and value is None)):
        raise TypeError(f"{name} is {value!r}: a str is wanted{', or None' if optional else ''}")


def check_many(name: str, value: object) -> None:
    """Raises TypeError unless it can be gone through and is not one str, of which Python would take the letters."""
    if isinstance(value, str | bytes) or not hasattr(value, "__iter__"):
        like = repr((value,)) if isinstance(value, str) else '("a", "b")'
        raise TypeError(f"{name} is {value!r}: a sequence is wanted, such as {like}")


def check_texts(name: str, value: object) -> None:
    """Raises TypeError unless it is a sequence of str."""
    check_many(name, value)
    if not isinstance(value, Sequence | set | frozenset):
        raise TypeError(f"{name} is {value!r}: a sequence is wanted")
    for text in value:
        check_text(f"one of {name}", text)


def check_whole(name: str, value: object) -> None:
    """Raises TypeError unless it is an int; True is none."""
    if type(value) is not int:
        raise TypeError(f"{name} is {value!r}: an int is wanted")


def check_number(name: str, value: object, *, optional: bool = False) -> None:
    """Raises TypeError unless it is an int or a float, or None where that is allowed."""
    if type(value) not in (int, float) and not (optional and value is None):
        raise TypeError(f"{name} is {value!r}: a number is wanted")


def check_named(decorator: str, name: object) -> None:
    """Raises TypeError unless the decorator was given a name: without parentheses it is given the function."""
    if callable(name):
        of = getattr(name, "__name__", repr(name))
        raise TypeError(f'@{decorator} needs a name: write @{decorator}("{of}") above {of}')
    check_text(f"the name given to @{decorator}", name)


def check_function(decorator: str, function: object) -> None:
    """Raises TypeError unless something that can be called was decorated."""
    if not callable(function):
        raise TypeError(f"@{decorator} is given {function!r}: a function is wanted")


def check_scope(scope: object) -> None:
    """Raises ValueError unless it is one of the two."""
    if scope not in ("one", "all"):
        raise ValueError(f'scope is {scope!r}: "one" or "all" is wanted')


def check_options(options: Mapping[str, object]) -> None:
    """Raises TypeError or ValueError for what an option can never be; what the rules of the envelope forbid is not asked here."""
    check_text("type", options.get("type", ""))
    for name in ("schema", "key", "correlation_id", "order_key"):
        check_text(name, options.get(name), optional=True)
    check_whole("max_attempts", options.get("max_attempts", 1))
    priority = options.get("priority", MIN_PRIORITY)
    check_whole("priority", priority)
    if priority not in range(MIN_PRIORITY, MAX_PRIORITY + 1):
        raise ValueError(f"priority is {priority}: {MIN_PRIORITY} to {MAX_PRIORITY} is wanted")
    confidence = options.get("min_confidence")
    check_number("min_confidence", confidence, optional=True)
    if isinstance(confidence, int | float) and not 0 <= confidence <= 1:
        raise ValueError(f"min_confidence is {confidence}: 0 to 1 is wanted")
    if options.get("delay") is not None and options.get("not_before") is not None:
        raise ValueError("delay and not_before are two ways to say the same: one is wanted")
    check_budget(options.get("budget"))
    headers = options.get("headers")
    if headers is None:
        return
    if not isinstance(headers, Mapping):
        raise TypeError(f"headers is {headers!r}: a mapping from str to str is wanted")
    for name, value in headers.items():
        if not (isinstance(name, str) and isinstance(value, str)):
            raise TypeError(f"headers has {name!r}: {value!r}: both must be str")
