"""Reading a rule about who may call whom as an admin wrote it: everything that is wrong with it at once. Pure."""

from typing import Any

import msgspec

from reach import ids
from reach.envelope.call_rule import CallRule, source_problem, target_problem, type_problem
from reach.envelope.problems import Problem, listed, sentence_of
from reach.envelope.records import decode_call_rule
from reach.errors import ConfigError, RecordError

_objects = msgspec.json.Decoder(dict[str, msgspec.Raw])
_FIELDS = {field.name: field for field in msgspec.structs.fields(CallRule)}
_MEANING = {"source": source_problem, "target": target_problem, "type": type_problem}


def read_call_rule(name: str, data: bytes) -> CallRule:
    """The rule that routers will follow.

    Args:
        name: What it is called; hop records and receipts say it.
        data: The rule as JSON.

    Raises:
        ConfigError: It cannot be used; `details["problems"]` has all that is wrong: code, field and a sentence for each.
    """
    problems = [*_name(name), *_rule(data)]
    if problems:
        text = f"rule {name[:128]!r}: {sentence_of(problems)}"
        raise ConfigError(text, details={"problems": listed(problems)})
    return decode_call_rule(data)


def _problem(field: str, message: str) -> Problem:
    return Problem("rule.bad_field", field, message)


def _name(name: str) -> list[Problem]:
    if ids.is_name(name):
        return []
    return [_problem("name", "letters, digits, '.', '_', '-', at most 128, the first a letter or digit")]


def _rule(data: bytes) -> list[Problem]:
    try:
        fields = _objects.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        return [_problem("", f"no JSON object: {str(error)[:200]}")]
    problems = [
        _problem(name[:128], f"no such field; there is: {', '.join(_FIELDS)}")
        for name in sorted(fields.keys() - _FIELDS.keys())
    ]
    said = {name: raw for name, raw in fields.items() if name in _FIELDS and bytes(raw) != b"null"}
    problems += [_problem(name, "missing") for name, field in _FIELDS.items() if field.required and name not in said]
    for name, raw in said.items():
        problems += _value(name, raw)
    if not problems:
        try:
            decode_call_rule(data)
        except RecordError as error:  # what only the whole can show, such as a name that stands there twice
            problems.append(_problem("", error.message))
    return problems


def _value(name: str, raw: msgspec.Raw) -> list[Problem]:
    if name == "effect" and bytes(raw).strip() not in {b'"allow"', b'"deny"'}:
        return [_problem(name, 'say "allow" or "deny"')]
    try:
        value: Any = msgspec.json.decode(raw, type=str)
    except msgspec.DecodeError as error:
        return [_problem(name, str(error)[:200])]
    problem = _MEANING[name](value) if name in _MEANING else None
    return [_problem(name, problem)] if problem is not None else []
