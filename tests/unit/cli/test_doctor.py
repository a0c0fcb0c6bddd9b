"""The doctor's judgements that no server can be brought to on purpose, and how findings are put together."""

import msgspec
import pytest

from reach.backend.survey import Consumer, Partition, ServerFacts, StreamFacts, Survey
from reach.cli.doctor import OF_THE_ENV, OF_THE_SERVER, server_checks
from reach.cli.doctor.env_checks import active_in, workers
from reach.cli.doctor.finding import Fault, Finding, judged, spoken_ms, worst

FACTS = ServerFacts(info={}, fsync="", min_replicas="", eviction="noeviction", now_ms=0, local_ms=0, pings_ms=(0,))


def seen(*pings_ms: int, **info: str) -> Survey:
    return Survey(server=msgspec.structs.replace(FACTS, info=info, pings_ms=pings_ms or (0,)))


@pytest.mark.parametrize(
    ("info", "status", "says"),
    [
        ({"redis_version": "7.0.0"}, "ok", "Redis 7.0.0"),
        ({"redis_version": "6.2.14"}, "fail", "this is Redis 6.2.14"),
        ({"redis_version": "7.2.4", "valkey_version": "7.2.5"}, "fail", "this is Valkey 7.2.5"),
        ({"redis_version": "7.2.4", "valkey_version": "8.0.1"}, "ok", "Valkey 8.0.1"),
        ({"redis_version": "8.2.0"}, "ok", "Redis 8.2.0"),
    ],
)
def test_the_oldest_servers(info: dict[str, str], status: str, says: str) -> None:
    finding = server_checks.version(seen(**info))
    assert (finding.status, says in finding.says) == (status, True)


@pytest.mark.parametrize(
    ("info", "says"),
    [
        ({"aof_enabled": "1", "aof_last_write_status": "err"}, "append-only file"),
        ({"aof_enabled": "1", "aof_last_bgrewrite_status": "err"}, "append-only file"),
        ({"rdb_last_bgsave_status": "err"}, "the last snapshot failed"),
    ],
)
def test_a_disk_that_cannot_be_written(info: dict[str, str], says: str) -> None:
    finding = server_checks.durability(seen(**info))
    assert (finding.status, says in finding.says) == ("fail", True)


def test_memory_without_a_bound_is_measured_by_the_machine() -> None:
    told = server_checks.memory(seen(used_memory="96", maxmemory="0", total_system_memory="100"))
    assert (told.status, "the machine's memory" in told.says) == ("fail", True)
    assert server_checks.memory(seen()).status == "ok"


def test_who_has_not_asked_for_ten_seconds_serves_nothing() -> None:
    consumers = (Consumer("w1", 0, 9_999), Consumer("w2", 3, 10_000))
    assert active_in(StreamFacts(key="k", type="stream", consumers=consumers)) == ["w1"]


@pytest.mark.parametrize(
    ("info", "denied", "tick_age_ms", "status"),
    [
        ({"redis_version": "7.0.15"}, (), 2_000, "ok"),  # its readers cannot be seen while nothing comes
        ({"redis_version": "7.0.15"}, (), 12_000, "fail"),
        ({"redis_version": "7.0.15"}, (), None, "fail"),
        ({"redis_version": "7.2.0"}, (), 2_000, "fail"),
        ({"redis_version": "7.2.4", "valkey_version": "8.1.0"}, (), 2_000, "fail"),
        ({"redis_version": "8.0.0"}, ("XINFO CONSUMERS",), 2_000, "ok"),
    ],
)
def test_due_speaks_for_readers_that_cannot_be_seen(
    info: dict[str, str], denied: tuple[str, ...], tick_age_ms: int | None, status: str
) -> None:
    control = StreamFacts(key="c", type="stream", consumers=(Consumer("w1", 0, 5),))
    door = StreamFacts(key="k", type="stream", consumers=(Consumer("w1", 0, 60_000),))
    tick = None if tick_age_ms is None else 100_000 - tick_age_ms
    partition = Partition(number=0, doors=(door,), inboxes=(), records=(), now_ms=100_000, tick_last_ms=tick)
    server = msgspec.structs.replace(FACTS, info=info)
    survey = Survey(server=server, env_streams=(control,), partitions=(partition,), denied=denied)
    assert workers(survey).status == status


def test_the_worst_comes_first_and_the_rest_is_counted() -> None:
    faults = [Fault("warn", f"w{n}", "small help") for n in range(4)] + [Fault("fail", "f", "help")]
    finding = judged("x", faults, "fine")
    assert finding == Finding("x", "fail", "f; w0; w1; and 2 more", "help", ("f", "w0", "w1", "w2", "w3"))
    assert judged("x", [], "fine") == Finding("x", "ok", "fine")
    assert worst([finding, judged("y", [], "")]) == "fail"
    assert worst([judged("y", faults[:1], "")]) == "warn"
    assert worst([]) == "ok"


def test_durations_are_said_as_people_do() -> None:
    assert [spoken_ms(ms) for ms in (5, 999, 1_000, 13_340, 119_999, 120_000, 7_200_000)] == [
        "5 ms", "999 ms", "1 s", "13.3 s", "120 s", "2 min", "2 h",
    ]  # fmt: skip


def test_a_server_without_facts_is_judged_all_the_same() -> None:
    assert [check(seen()).status for check in OF_THE_SERVER] == ["warn", "warn", "ok", "ok", "ok", "ok", "ok"]
    assert len({check(seen()).check for check in OF_THE_SERVER} | {check.__name__ for check in OF_THE_ENV}) == 20
