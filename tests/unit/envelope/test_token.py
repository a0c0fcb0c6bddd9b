"""Registration tokens: what they allow, and that nothing else passes for one."""

import msgspec
import pytest

from reach.envelope.registration import Capability, Registration
from reach.envelope.token import Claims, check, issue, read, unverified
from reach.errors import ConfigError, RegistrationRefused

KEY, OTHER = "k" * 32, "o" * 32
CLAIMS = Claims(env="prod", agent_id="refund-*", capabilities=("billing.refund", "shipping.*"), expires_at_ms=10_000)


def declared(agent_id: str = "refund-1", *capabilities: str) -> Registration:
    return Registration(
        agent_id=agent_id,
        instance_id="i",
        env="prod",
        capabilities=tuple(Capability(name=name) for name in capabilities),
    )


def refusal(claims: Claims, wanted: Registration, *, env: str = "prod", now_ms: int = 5_000) -> str:
    with pytest.raises(RegistrationRefused) as caught:
        check(claims, wanted, env=env, now_ms=now_ms)
    assert caught.value.code == "registration.bad_token"
    return caught.value.message


def test_what_was_issued_is_read_with_any_of_the_keys() -> None:
    assert read(issue(KEY, CLAIMS), [OTHER, KEY]) == CLAIMS
    assert unverified(issue(KEY, CLAIMS)) == CLAIMS


@pytest.mark.parametrize("capabilities", [(), ("billing.refund",), ("shipping.track", "shipping.a.b")])
def test_what_the_claims_cover_is_let_in(capabilities: tuple[str, ...]) -> None:
    check(CLAIMS, declared("refund-1", *capabilities), env="prod", now_ms=9_999)


def test_what_they_do_not_cover_is_refused_with_the_reason() -> None:
    assert "env prod, this is dev" in refusal(CLAIMS, declared(), env="dev")
    assert "expired 0 s ago" in refusal(CLAIMS, declared(), now_ms=10_000)
    assert "not billing-1" in refusal(CLAIMS, declared("billing-1"))
    assert "shipping, weather" in refusal(CLAIMS, declared("refund-1", "weather", "shipping", "billing.refund"))


def test_anything_for_ever() -> None:
    check(Claims(env="dev", agent_id="*"), declared("x", "y.z"), env="dev", now_ms=1 << 60)


def test_groups_are_allowed_by_name() -> None:
    member = msgspec.structs.replace(declared(), groups=("billing", "admins"))
    assert "groups admins, billing" in refusal(CLAIMS, member)
    assert "groups admins" in refusal(msgspec.structs.replace(CLAIMS, groups=("bill*",)), member)
    for groups in (("*",), ("billing", "admins")):
        check(msgspec.structs.replace(CLAIMS, groups=groups), member, env="prod", now_ms=0)


def _changed(token: str) -> list[str]:
    form, claims, signature = token.split(".")
    forged = issue(OTHER, Claims(env="prod", agent_id="*")).split(".")[1]
    return [
        "",
        ".",
        "..",
        "reach1",
        "reach1..",
        f"{form}.{forged}.{signature}",
        f"{form}.{claims}.{signature[:-2]}AA",
        f"{form}.{claims}.",
        f"reach2.{claims}.{signature}",
        f"{form}.{claims}x.{signature}",
        f"{form}.{claims}.{signature}\ud800",
        issue(OTHER, CLAIMS),
        "\u00e9.\u00e9.\u00e9",
    ]


def test_nothing_else_passes_for_a_token() -> None:
    for text in _changed(issue(KEY, CLAIMS)):
        with pytest.raises(RegistrationRefused) as caught:
            read(text, [KEY])
        assert caught.value.code == "registration.bad_token"
    with pytest.raises(RegistrationRefused):
        read(issue(KEY, CLAIMS), [])


def test_claims_that_cannot_be_read_are_refused_although_they_are_signed() -> None:
    from reach.envelope import token

    body = f"{token.FORM}.{token._encoded(b'[1]')}"
    with pytest.raises(RegistrationRefused):
        read(f"{body}.{token._signed(KEY, body)}", [KEY])
    assert unverified(f"{body}.x") is None
    assert unverified("reach1.!") is None
    assert unverified("other.x.y") is None


def test_what_cannot_be_issued_says_all_that_is_wrong() -> None:
    bad = Claims(env="Prod", agent_id="a b", capabilities=("A", "*"), groups=("a b",), expires_at_ms=-1)
    with pytest.raises(ConfigError) as caught:
        issue("short", bad)
    assert len(caught.value.details["problems"]) == 6
    for claims in (Claims(env="dev", agent_id=""), Claims(env="dev", agent_id="a", capabilities=())):
        with pytest.raises(ConfigError):
            issue(KEY, claims)
