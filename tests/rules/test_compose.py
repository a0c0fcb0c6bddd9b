"""deploy/compose.yaml, as far as it can be judged without a container: what its parts say of one another and of reach is true."""

import re
from pathlib import PurePosixPath
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml

from reach.ids import new_msg_id
from reach.settings import TABLE, Settings, load
from reach.tracing.exposition import MetricsPage
from reach.tracing.readings import Readings
from reach.tracing.tally import Tally
from reach_worker import cli, process
from tests.monitoring.questions import dashboards
from tests.rules.files import ROOT, read

COMPOSE = yaml.safe_load(read("deploy/compose.yaml"))
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
WORKERS = {name: one for name, one in SERVICES.items() if one["image"] == "reachmq"}
PROMETHEUS = yaml.safe_load(read("deploy/prometheus/prometheus.yml"))
ALERTMANAGER = yaml.safe_load(read("deploy/alertmanager/alertmanager.yml"))
SOURCES = yaml.safe_load(read("deploy/grafana/provisioning/datasources/prometheus.yaml"))
#: Where each image listens; those that are published stand in the file as well.
LISTENS = {
    "redis": 6379,
    "jaeger": 16686,
    "prometheus": 9090,
    "alertmanager": 9093,
    "grafana": 3000,
    "alert-bridge": 9095,
}
OTLP_PORT = 4318


def variables(service: dict[str, Any]) -> dict[str, str]:
    """What is in the environment of a service where nobody has said anything to Compose."""
    said = service.get("environment", {})
    return {name: re.sub(r"\$\{\w+:-([^}]*)\}", r"\1", value) for name, value in said.items()}


def settings_of(name: str, **more: str) -> Settings:
    """The settings of a worker, read as it reads them. Raises ConfigError and what click raises."""
    command = WORKERS[name]["command"]
    assert command[0] in cli.main.commands
    run = cli.main.commands[command[0]].make_context("reach-worker", list(command[1:]))
    options = {field: value for field, value in run.params.items() if field != "exit_with_stdin"}
    return load(variables(WORKERS[name]) | more, options)


def seconds(text: str) -> int:
    """A duration such as `20s`."""
    assert text.endswith("s"), text
    return int(text[:-1])


def mounts(service: dict[str, Any]) -> dict[str, str]:
    """Where in the container lies what: a folder of deploy, or a volume."""
    parts = [volume.split(":") for volume in service.get("volumes", ())]
    return {part[1]: part[0] for part in parts}


def here(service: dict[str, Any], path: str) -> str:
    """The file of deploy that a container sees under this path."""
    for inside, outside in mounts(service).items():
        if PurePosixPath(path).is_relative_to(inside) and outside.startswith("./"):
            return f"deploy/{outside.removeprefix('./')}/{PurePosixPath(path).relative_to(inside)}"
    raise AssertionError(f"{path} is mounted nowhere")


def test_it_has_the_services_that_the_page_names() -> None:
    assert set(SERVICES) == {*LISTENS, "reach-worker", "archiver"}
    assert set(WORKERS) == {"reach-worker", "archiver", "alert-bridge"}
    assert [name for name, one in SERVICES.items() if "profiles" in one] == ["alert-bridge"]


@pytest.mark.parametrize("name", sorted(set(SERVICES) - set(WORKERS)))
def test_every_foreign_image_has_a_version(name: str) -> None:
    assert re.fullmatch(r"[\w./-]+:v?\d[\w.-]*", SERVICES[name]["image"])


@pytest.mark.parametrize("name", sorted(WORKERS))
def test_a_worker_can_be_started_so_and_has_time_to_drain(name: str) -> None:
    more = {"REACH_ALERT_TO": "generic=http://chat"} if name == "alert-bridge" else {}
    settings = settings_of(name, **more)
    assert settings.drain_ms < seconds(WORKERS[name]["stop_grace_period"]) * 1000
    known = {setting.variable for setting in TABLE}
    assert {one for one in variables(WORKERS[name]) if not one.startswith("OTEL_")} <= known
    health = settings.health_port
    assert f"http://127.0.0.1:{health}/readyz" in WORKERS[name]["healthcheck"]["test"][-1]
    assert settings.metrics_port is None
    assert f"EXPOSE {health} {process.METRICS_PORT}" in read("deploy/Dockerfile")
    if "REACH_REDIS_URL" in variables(WORKERS[name]):
        where = urlsplit(settings.redis_url)
        assert (where.hostname, where.port) == ("redis", LISTENS["redis"])


def test_the_archiver_keeps_on_a_volume_that_its_user_may_write() -> None:
    archiver = WORKERS["archiver"]
    store = variables(archiver)["REACH_EVENT_STORE"].removeprefix("sqlite:")
    (inside,) = mounts(archiver)
    assert PurePosixPath(store).is_relative_to(inside)
    # A new volume belongs to whom the folder of the image belongs.
    assert re.search(rf"useradd .*--create-home --home-dir {inside} reach\n", read("deploy/Dockerfile"))
    spans = urlsplit(variables(archiver)["OTEL_EXPORTER_OTLP_ENDPOINT"])
    assert (spans.hostname, spans.port) == ("jaeger", OTLP_PORT)
    assert f"127.0.0.1:{OTLP_PORT}:{OTLP_PORT}" in SERVICES["jaeger"]["ports"]


def test_what_waits_for_a_service_waits_for_one_that_can_say_that_it_is_well() -> None:
    for name, service in SERVICES.items():
        for other, how in service.get("depends_on", {}).items():
            assert how == {"condition": "service_healthy"}, name
            assert "healthcheck" in SERVICES[other], name


def test_ports_are_those_of_the_images_and_of_this_machine_alone() -> None:
    for name, service in SERVICES.items():
        for published in service.get("ports", ()):
            host, _, inside = published.rpartition(":")
            assert host == f"127.0.0.1:{inside}", f"{name}: nobody else is to reach it"
            assert int(inside) in {LISTENS[name], OTLP_PORT}, name


def test_every_volume_is_declared_and_every_folder_is_there() -> None:
    sources = {source for service in SERVICES.values() for source in mounts(service).values()}
    assert {source for source in sources if not source.startswith("./")} == set(COMPOSE["volumes"])
    for source in sources:
        assert not source.startswith("./") or (ROOT / "deploy" / source).is_dir(), source


@pytest.mark.parametrize("name", ["prometheus", "alertmanager"])
def test_a_server_finds_its_configuration(name: str) -> None:
    (flag,) = (word for word in SERVICES[name]["command"] if word.startswith("--config.file="))
    assert yaml.safe_load(read(here(SERVICES[name], flag.partition("=")[2])))


def test_prometheus_finds_rules_workers_and_alertmanager() -> None:
    found = [path for pattern in PROMETHEUS["rule_files"] for path in _matching(here(SERVICES["prometheus"], pattern))]
    assert found == ["rules.yml", "recording.yml"]
    (scraped,) = PROMETHEUS["scrape_configs"]
    (discovery,) = scraped["dns_sd_configs"]
    assert set(discovery["names"]) == set(WORKERS), "whoever cannot be scraped has no alert of his own"
    assert discovery["port"] == process.METRICS_PORT
    assert scraped["job_name"] == "reach", "as the rules name it"
    (label,) = scraped["relabel_configs"]
    assert label["target_label"] == "env"
    in_redis = [name for name in WORKERS if "REACH_REDIS_URL" in variables(WORKERS[name])]
    assert {settings_of(name).env for name in in_redis} == {label["replacement"]}
    ((target,),) = (one["targets"] for one in PROMETHEUS["alerting"]["alertmanagers"][0]["static_configs"])
    assert target == f"alertmanager:{LISTENS['alertmanager']}"
    keeps = next(word for word in SERVICES["prometheus"]["command"] if "retention.time" in word)
    assert int(keeps.partition("=")[2].removesuffix("d")) > 30, "the promises are over 30 days"


def exemplar_labels() -> set[str]:
    """The labels of an example, as /metrics writes them."""
    tally = Tally(lambda: 1.0)
    tally.delivery.observe(0.1, new_msg_id(), None)
    readings = Readings()
    readings.plays("router")
    readings.count(tally)
    page = MetricsPage(readings)(
        b"GET /metrics HTTP/1.1\r\nAccept: application/openmetrics-text; version=1.0.0\r\n\r\n"
    )
    return set(re.findall(r"# \{(\w+)=", page.content.decode()))


def _matching(pattern: str) -> list[str]:
    folder, _, name = pattern.rpartition("/")
    return [path.name for path in sorted((ROOT / folder).glob(name))]


def test_alertmanager_tells_the_bridge() -> None:
    for receiver in ALERTMANAGER["receivers"]:
        for hook in receiver["webhook_configs"]:
            where = urlsplit(hook["url"])
            listens = settings_of("alert-bridge", REACH_ALERT_TO="generic=http://chat").alert_listen
            assert (where.hostname, where.port) == ("alert-bridge", LISTENS["alert-bridge"])
            assert listens.endswith(f":{where.port}")
            assert where.path == "/hooks/alertmanager"
    assert ALERTMANAGER["route"]["receiver"] in {one["name"] for one in ALERTMANAGER["receivers"]}


@pytest.mark.parametrize("name", sorted(WORKERS))
def test_other_containers_reach_what_a_worker_serves(name: str) -> None:
    settings = settings_of(name, **({"REACH_ALERT_TO": "generic=http://chat"} if name == "alert-bridge" else {}))
    assert settings.health_host == "0.0.0.0", "Prometheus asks from another container"
    assert settings.alert_listen.startswith("0.0.0.0:")


def test_each_command_that_names_a_service_names_one_that_is_there() -> None:
    commands = [
        rule["annotations"]["command"]
        for group in yaml.safe_load(read("deploy/prometheus/rules.yml"))["groups"]
        for rule in group["rules"]
        if "alert" in rule
    ]
    addresses = [urlsplit(word) for command in commands for word in command.split() if word.startswith("http")]
    assert addresses
    for address in addresses:
        assert LISTENS[address.hostname or ""] == address.port


def test_every_route_of_alertmanager_names_alerts_that_there_are() -> None:
    there = set(re.findall(r"- alert: (\w+)", read("deploy/prometheus/rules.yml")))
    named = set(re.findall(r"\bReach\w+", read("deploy/alertmanager/alertmanager.yml")))
    assert named
    assert named <= there


def test_grafana_has_its_sources_and_dashboards() -> None:
    uids = {one["uid"] for one in SOURCES["datasources"]}
    for source in SOURCES["datasources"]:
        where = urlsplit(source["url"])
        assert LISTENS[where.hostname or ""] == where.port
        for trace in source.get("jsonData", {}).get("exemplarTraceIdDestinations", ()):
            assert trace["datasourceUid"] in uids
            assert trace["name"] in exemplar_labels(), "the label that leads from a point to its trace"
    assert "--enable-feature=exemplar-storage" in SERVICES["prometheus"]["command"]
    asked = {
        item["query"]
        for board in dashboards().values()
        for item in board["templating"]["list"]
        if item["type"] == "datasource"
    }
    assert asked <= {one["type"] for one in SOURCES["datasources"]}
    assert here(SERVICES["grafana"], "/etc/grafana/provisioning/datasources/prometheus.yaml")
    boards = yaml.safe_load(read("deploy/grafana/provisioning/dashboards/reach.yaml"))
    (provider,) = boards["providers"]
    assert here(SERVICES["grafana"], provider["options"]["path"] + "/reach-overview.json") == (
        "deploy/grafana/dashboards/reach-overview.json"
    )
