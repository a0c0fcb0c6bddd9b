"""What a program hands over, checked where it does so: one sentence there is worth more than Python's own words from further down."""

from collections.abc import Mapping, Sequence

from reach.envelope.message import MAX_PRIORITY, MIN_PRIORITY, Needs
from reach.envelope.registration import MAX_AMOUNT, RateLimit
from reach.sdk.budgets import check_budget
from reach.sdk.validating import need_validator


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


def check_tokens(value: object) -> None:
    """Raises unless it is None, or tokens as a beat can tell them: whoever reads a beat would leave out any others."""
    if value is None:
        return
    check_whole("context_left", value)
    if not 0 <= value < 1 << 63:  # type: ignore[operator]
        raise ValueError(f"context_left is {value}: tokens from 0 are wanted, below 2**63")


def check_number(name: str, value: object, *, optional: bool = False) -> None:
    """Raises TypeError unless it is an int or a float, or None where that is allowed."""
    if type(value) not in (int, float) and not (optional and value is None):
        raise TypeError(f"{name} is {value!r}: a number is wanted")


def check_cost(value: float | None) -> None:
    """Raises TypeError or ValueError for what is no cost that can be declared."""
    check_number("cost", value, optional=True)
    if value is not None and not 0 <= value <= MAX_AMOUNT:
        raise ValueError(f"cost is {value!r}: 0 to {MAX_AMOUNT:.0f} is wanted")


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


def declared_rate(limit: object) -> float | RateLimit | None:
    """A rate limit as it is declared. Raises TypeError for what is neither a number nor a mapping of messages and tokens to numbers."""
    if not isinstance(limit, Mapping):
        check_number("rate_limit", limit, optional=True)
        return limit  # type: ignore[return-value]  # it has just been looked at
    unknown = [name for name in limit if name not in RateLimit.__struct_fields__]
    if unknown:
        raise TypeError(f"rate_limit has {unknown[0]!r}: messages and tokens, a minute, are what it may have")
    messages, tokens = limit.get("messages"), limit.get("tokens")
    check_number("rate_limit messages", messages, optional=True)
    if tokens is not None:
        check_whole("rate_limit tokens", tokens)
    return RateLimit(messages=messages, tokens=tokens)


def needs_of(needs: object) -> Needs | None:
    """What `needs=` says. Raises TypeError or ValueError for what it can never say."""
    if needs is None or isinstance(needs, Needs):
        return needs
    if not isinstance(needs, Mapping):
        raise TypeError(f"needs is {needs!r}: a mapping is wanted")
    unknown = [name for name in needs if name not in Needs.__struct_fields__]
    if unknown:
        raise TypeError(f"needs has {unknown[0]!r}: {' and '.join(Needs.__struct_fields__)} are what it may have")
    tokens, tier = needs.get("context_tokens"), needs.get("tier")
    if tokens is not None:
        check_whole("needs context_tokens", tokens)
        if tokens < 0:
            raise ValueError(f"needs context_tokens is {tokens}: 0 or more is wanted")
    if type(tier) not in (str, int, type(None)):
        raise TypeError(f"needs tier is {tier!r}: a str or an int is wanted")
    return Needs(context_tokens=tokens, tier=tier)


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
    if not isinstance(options.get("validate", False), bool):
        raise TypeError(f"validate is {options['validate']!r}: True or False is wanted")
    if options.get("validate"):
        need_validator()
    check_budget(options.get("budget"))
    needs_of(options.get("needs"))
    _check_order(options.get("process_order"))
    on_input = options.get("on_input")
    if on_input is not None and not callable(on_input):
        raise TypeError(f"on_input is {on_input!r:.100}: a function that answers a prompt is wanted")
    headers = options.get("headers")
    if headers is None:
        return
    if not isinstance(headers, Mapping):
        raise TypeError(f"headers is {headers!r}: a mapping from str to str is wanted")
    for name, value in headers.items():
        if not (isinstance(name, str) and isinstance(value, str)):
            raise TypeError(f"headers has {name!r}: {value!r}: both must be str")


def _check_order(order: object) -> None:
    if order is None:
        return
    if isinstance(order, str | bytes) or not isinstance(order, Sequence):
        raise TypeError(
            f'process_order is {order!r:.100}: a list of stages is wanted, such as [["capability:a"], ["agent_id:b"]]'
        )
    for number, stage in enumerate(order):
        check_texts(f"process_order[{number}]", stage)
