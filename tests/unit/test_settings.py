"""Settings: precedence, every problem at once, no password in any text."""

import pytest

from reach import settings
from reach.errors import ConfigError
from reach.settings import Settings, default_node_id, load, otlp_wanted, safe_url


def test_defaults() -> None:
    found = load({})
    assert found.redis_url == "redis://localhost:6379"
    assert (found.env, found.roles, found.health_port, found.max_batch) == ("dev", ("router",), 8080, 100)
    assert (found.serve_partitions, found.drain_ms, found.log_format) == (None, 10_000, "json")
    assert found.node_id


def test_an_option_wins_over_its_variable_and_that_over_the_default() -> None:
    environ = {"REACH_ENV": "from-variable", "REACH_HEALTH_PORT": "", "REACH_DRAIN_TIMEOUT": "2.5"}
    assert load(environ).env == "from-variable"
    assert load(environ).health_port == 8080
    assert load(environ).drain_ms == 2500
    assert load(environ, {"env": "option", "health-port": 0, "batch": None}) == load(
        {}, {"env": "option", "health_port": "0", "drain_timeout": "2.5"}
    )


def test_all_problems_are_told_at_once_and_without_the_password() -> None:
    environ = {"REACH_ENV": "a.b", "REACH_HEALTH_PORT": "99999", "REACH_LOG_FORMAT": "xml", "REACH_BATCH": "1_0"}
    with pytest.raises(ConfigError) as caught:
        load(environ, {"redis-url": "http://user:hunter2@host", "roles": "router,cook", "drain_timeout": "-1"})
    problems = caught.value.details["problems"]
    assert [problem.partition(":")[0] for problem in problems] == [
        "--redis-url",
        "REACH_ENV",
        "--roles",
        "REACH_HEALTH_PORT",
        "REACH_BATCH",
        "--drain-timeout",
        "REACH_LOG_FORMAT",
    ]
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize("variable", ["REACH_RECEIPT_HOOK_TOKEN", "REACH_ALERT_TOKEN"])
def test_a_token_goes_into_a_header_without_its_line_end_or_not_at_all_and_is_not_shown(variable: str) -> None:
    field = variable.removeprefix("REACH_").lower()
    assert getattr(load({variable: "hunter2\n"}), field) == "hunter2"
    for text in ("hunter2\nX-Other: 1", "hunter2\x00", "hunter2 \u00e4"):
        with pytest.raises(ConfigError, match=variable) as told:
            load({variable: text})
        assert "hunter2" not in f"{told.value!r}"


@pytest.mark.parametrize(("text", "found"), [("all", None), ("3", (3,)), ("0,2,4-6, 2", (0, 2, 4, 5, 6))])
def test_partitions(text: str, found: tuple[int, ...] | None) -> None:
    assert load({"REACH_SERVE_PARTITIONS": text}).serve_partitions == found


@pytest.mark.parametrize("text", ["", "x", "1-", "5-2", "-1", "99999", "0-20000", "1;2", "0,"])
def test_bad_partitions(text: str) -> None:
    with pytest.raises(ConfigError):
        load({}, {"serve_partitions": text})


@pytest.mark.parametrize("text", ["1e9", "nan", "-1", "3601", "", "½"])
def test_bad_seconds(text: str) -> None:
    with pytest.raises(ConfigError):
        load({}, {"drain_timeout": text})


def test_a_url_is_shown_without_its_password() -> None:
    assert safe_url("rediss://me:secret@host:1/2") == "rediss://me:***@host:1/2"
    assert safe_url("redis://host") == "redis://host"


def test_a_host_name_becomes_a_node_id() -> None:
    assert default_node_id("my host.local") == "my-host.local"
    assert default_node_id("---") == "node"


def test_every_field_has_its_line_in_the_table() -> None:
    assert [setting.field for setting in settings.TABLE] == list(Settings.__struct_fields__)
    assert len({setting.variable for setting in settings.TABLE}) == len(settings.TABLE)


def test_the_environment_says_whether_spans_are_wanted() -> None:
    assert not otlp_wanted({})
    assert otlp_wanted({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://localhost:4318"})
    assert otlp_wanted({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://localhost:4318/v1/traces"})
    assert not otlp_wanted({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://localhost:4318", "OTEL_SDK_DISABLED": "true"})
