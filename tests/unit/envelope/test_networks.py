"""The setting `networks`: which addresses lie inside, and what is no network."""

import pytest

from reach.envelope.networks import MAX_NETWORKS, problem_of, read_networks


@pytest.mark.parametrize(
    ("text", "address", "inside"),
    [
        ("10.0.0.0/8", "10.255.0.1", True),
        ("10.0.0.0/8", "11.0.0.1", False),
        ("10.0.0.0/8", "::ffff:10.1.2.3", True),
        ("10.0.0.0/8", "::ffff:11.1.2.3", False),
        ("10.0.0.0/8", "::a00:1", False),
        ("::ffff:10.0.0.0/104", "10.1.2.3", True),
        ("10.1.2.3", "10.1.2.3", True),
        ("10.1.2.3", "10.1.2.4", False),
        ("::1/128", "::1", True),
        ("::1/128", "127.0.0.1", False),
        ("fe80::/10", "fe80::1%eth0", True),
        (" 10.0.0.0/8 , ::1 ", "::1", True),
        ("0.0.0.0/0", "::1", False),
        ("0.0.0.0/0,::/0", "2001:db8::1", True),
        ("0.0.0.0/0,::/0", "unix", False),
        ("unix", "unix", True),
        ("unix", "127.0.0.1", False),
        ("10.0.0.0/8", "", False),
        ("0.0.0.0/0", "localhost", False),
        ("0.0.0.0/0", "10.0.0.1:6379", False),
    ],
)
def test_inside_or_outside(text: str, address: str, inside: bool) -> None:
    assert read_networks(text).admits(address) is inside


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "empty network"),
        ("10.0.0.0/8,,::1", "empty network"),
        ("10.0.0.1/8", "host bits set"),
        ("10.0.0.0/33", "10.0.0.0/33"),
        ("localhost", "localhost"),
        ("Unix", "Unix"),
        (",".join(["10.0.0.1"] * (MAX_NETWORKS + 1)), "at most 1000"),
    ],
)
def test_what_is_no_network(text: str, says: str) -> None:
    assert says in (problem_of(text) or "")
    with pytest.raises(ValueError, match=r"network|host|empty"):
        read_networks(text)


def test_all_that_is_wrong_is_told_at_once_and_nothing_where_all_is_right() -> None:
    told = problem_of("here,10.0.0.0/8,there") or ""
    assert "here" in told
    assert "there" in told
    assert problem_of("10.0.0.0/8") is None
