"""Patterns are judged as they are stored: what passes here, the validator compiles."""

from random import Random

import jsonschema_rs
import pytest

from reach.envelope.regexes import MAX_GROUPS_DEEP, MAX_STEPS, regex_problem
from reach.sdk.validating import PATTERN_BYTES

LIMITS = jsonschema_rs.RegexOptions(size_limit=PATTERN_BYTES, dfa_size_limit=PATTERN_BYTES)
PARTS = (
    *("a", "b", "é", "😀", "-", "]", "[", "[^", "(", "(?:", "(?<n>", "(?P<m>", "(?i)", "(?i-s:", "(?=", "(?<!", ")"),
    *("|", "*", "+", "?", "{2}", "{1,3}", "{2,}", "{3,1}", "{", "}", "^", "$", ".", "&", "&&", "~~", "--", "<", ">"),
    *("\\d", "\\W", "\\b", "\\A", "\\z", "\\1", "\\k<n>", "\\p{L}", "\\pN", "\\x41", "\\u0042", "\\u{43}", "\\cA"),
    *(
        "\\-",
        "\\]",
        "\\[",
        "\\<",
        "\\>",
        "\\/",
        '\\"',
        "\\ ",
        "\\é",
        "\\😀",
        "\\t",
        "\\v",
        "\\0",
        "\\_",
        "\\\n",
        "\\\x7f",
    ),
)


@pytest.mark.parametrize(
    "pattern",
    [
        "",
        "^[A-Z]{2}-\\d{4}$",
        "^(?:a|b)+?$",
        "(?<year>\\d{4})-(?P<month>\\d\\d)",
        "^[^@\\s]{1,64}@[a-z0-9.-]+\\.[a-z]{2,}$",
        "(?i:yes)|(?i)no",
        "\\p{L}+\\P{Lu}*[\\p{N}_]",
        "\\u00e9\\x41\\u{1F600}\\cJ\\t\\/",
        "[-a][a-][\\w.-]",
        "a]}",
        "\\A\\bword\\b\\z",
        "()|(|a)",
    ],
)
def test_a_pattern_in_use_is_taken(pattern: str) -> None:
    assert regex_problem(pattern) == ""


@pytest.mark.parametrize(
    ("pattern", "said"),
    [
        ("^(?=.*\\d).{8,}$", "look-around, which takes more than linear time (character 3)"),
        ("a(?!b)", "look-around"),
        ("(?<=a)b", "look-around"),
        ("(?<!a)b", "look-around"),
        ("(a)\\1", "\\1, a reference to a group"),
        ("(?<n>a)\\k<n>", "\\k, a reference to a group"),
        ("(?<n>a)(?<n>b)", "two groups named n"),
        ("(?>a)", "of a kind that is not known"),
        ("(?ii)a", "of a kind that is not known"),
        ("(?i)*", "that is no group"),
        ("(", "a ( that is not closed (character 2)"),
        ("a)", "a ) that closes nothing (character 2)"),
        ("(" * (MAX_GROUPS_DEEP + 1) + ")" * (MAX_GROUPS_DEEP + 1), "nested deeper"),
        ("[a", "a [ that is not closed"),
        ("[]a]", "an empty [ ]"),
        ("[^]", "an empty [ ]"),
        ("[[a]]", "[ inside [ ]: write \\["),
        ("[a&&b]", "&& inside [ ]"),
        ("[+--]", "-- inside [ ]: write \\-"),
        ("[\\w-z]", "begins or ends with a class"),
        ("[z-a]", "ends before it begins"),
        ("[\\b]", "\\b is not known here"),
        ("*a", "a * with nothing before it"),
        ("a|+", "a + with nothing before it"),
        ("{2}", "a { with nothing before it"),
        ("a{,2}", "a { that is no repetition"),
        ("a{3,2}", "a repetition that ends before it begins"),
        ("(a{1000}){1000}", f"more than {MAX_STEPS} characters"),
        ("(){999999999}", f"more than {MAX_STEPS} characters"),
        ("a{2}{9999}", f"more than {MAX_STEPS} characters"),
        ("a\\", "ends with a \\"),
        ("\\e", "\\e is not known here"),
        ("\\Z", "\\Z is not known here"),
        ("\\<a", "\\< is not known here"),
        ("\\ud800", "d800 is no character"),
        ("\\u{110000}", "110000 is no character"),
        ("\\x4", "\\x is not known here"),
    ],
)
def test_what_cannot_be_used_is_said_with_its_place(pattern: str, said: str) -> None:
    assert said in regex_problem(pattern)


def test_what_is_taken_can_be_compiled() -> None:
    rng, taken = Random(5), 0
    for _ in range(20_000):
        pattern = "".join(rng.choices(PARTS, k=rng.randint(1, 7)))
        if regex_problem(pattern) == "":
            taken += 1
            jsonschema_rs.Draft202012Validator({"pattern": pattern}, pattern_options=LIMITS)
    assert taken > 2_000
