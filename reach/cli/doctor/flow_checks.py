"""Checks of what is under way: doors, due, holders, dead letters, ids."""

from collections.abc import Iterator
from shlex import quote

from reach.backend.survey import Partition, StreamFacts, Survey
from reach.cli.doctor.finding import Fault, Finding, judged, spoken_ms

LAG_WARN_MS, LAG_FAIL_MS = 5_000, 30_000
OVERDUE_WARN_MS, OVERDUE_FAIL_MS = 3_000, 10_000
TICK_MS = 3_000
AHEAD_MS = 60_000
RUN = "reach-worker run"


def lag(survey: Survey) -> Finding:
    """How much waits at the doors, and since when."""
    faults, waiting = [], 0
    for door in _doors(survey):
        waiting += door.length
        age_ms = door.now_ms - door.first_id[0]
        if door.length and age_ms >= LAG_WARN_MS:
            says = f"{door.key} has {door.length} entries, the oldest waits {spoken_ms(age_ms)}"
            faults.append(Fault("fail" if age_ms >= LAG_FAIL_MS else "warn", says, f"{RUN} (one more, or one at all)"))
    return judged("lag", faults, f"{waiting} entries at the doors, none waits long")


def _doors(survey: Survey) -> Iterator[StreamFacts]:
    yield survey.env_streams[0]
    for partition in survey.partitions:
        yield from partition.doors


def due(survey: Survey) -> Finding:
    """Moments are kept: nothing that is due waits."""
    faults = []
    for partition in survey.partitions:
        late_ms = partition.now_ms - partition.overdue_since_ms
        if partition.overdue and late_ms >= OVERDUE_WARN_MS:
            says = f"partition {partition.number}: {partition.overdue} messages are overdue, the oldest by {spoken_ms(late_ms)}"
            faults.append(Fault("fail" if late_ms >= OVERDUE_FAIL_MS else "warn", says, RUN))
    return judged("due", faults, "nothing is overdue")


def tick(survey: Survey) -> Finding:
    """Somebody runs due every second, and no grace holds leases back."""
    faults = [fault for partition in survey.partitions if (fault := _tick_fault(partition))]
    ages = [one.now_ms - one.tick_last_ms for one in survey.partitions if one.tick_last_ms is not None]
    return judged("tick", faults, f"due ran {spoken_ms(max(0, *ages))} ago" if ages else "")


def _tick_fault(partition: Partition) -> Fault | None:
    where = f"partition {partition.number}"
    if partition.tick_last_ms is None:
        return Fault("fail", f"{where}: due has never run: no deadline is kept", RUN)
    age_ms = partition.now_ms - partition.tick_last_ms
    if age_ms < -1_000:
        return Fault(
            "warn",
            f"{where}: due ran {spoken_ms(-age_ms)} in the future: the server's clock has stepped back",
            "timedatectl status",
        )
    if age_ms > TICK_MS:
        return Fault("fail", f"{where}: due has not run for {spoken_ms(age_ms)}: no deadline is kept", RUN)
    grace_ms = partition.tick_grace_until_ms - partition.now_ms
    if grace_ms > 0:
        return Fault("warn", f"{where}: a grace after an outage holds back leases for {spoken_ms(grace_ms)} more")
    return None


def pending(survey: Survey) -> Finding:
    """Whatever was taken has somebody who works on it."""
    assert survey.records is not None
    beating = {(agent_id, instance_id) for agent_id, instance_id, _, _ in survey.records.beats}
    faults = []
    for door in _doors(survey):
        faults += [
            Fault(
                "fail",
                f"{door.key}: entry {one.id} lies with {one.consumer} for {spoken_ms(one.idle_ms)}, and nobody claims it",
                RUN,
            )
            for one in door.stuck
        ]
    for inbox in (inbox for partition in survey.partitions for inbox in partition.inboxes):
        late = {one.consumer for one in inbox.stuck}
        faults += [
            Fault(
                "fail",
                f"{inbox.key}: entry {one.id} lies with {one.consumer}, which has not renewed for {spoken_ms(one.idle_ms)}",
                f"{RUN} (due takes it back)",
            )
            for one in inbox.stuck
        ]
        faults += [
            Fault(
                "warn",
                f"{inbox.key}: {one.pending} entries lie with {one.name}, which does not beat",
                f"{RUN} (due takes them back after the lease)",
            )
            for one in inbox.consumers
            if one.pending and one.name not in late and (inbox.agent_id, one.name) not in beating
        ]
    return judged("pending", faults, "what was taken has a holder")


def dead(survey: Survey) -> Finding:
    """Messages that were given up."""
    count = sum(stream.length for partition in survey.partitions for stream in partition.records[1:])
    faults = [Fault("warn", f"{count} dead letters", "reach dead ls")] if count else []
    return judged("dead", faults, "no dead letters")


def stream_ids(survey: Survey) -> Finding:
    """No stream has an id of the far future, which would stop all that comes after it."""
    faults = []
    streams = [*survey.env_streams]
    for partition in survey.partitions:
        streams += [*partition.doors, *partition.inboxes, *partition.records]
    for stream in streams:
        ahead_ms = stream.last_id[0] - stream.now_ms
        if ahead_ms > AHEAD_MS:
            says = f"{stream.key} has had the id {stream.last_id[0]}-{stream.last_id[1]}, {spoken_ms(ahead_ms)} ahead of the clock"
            faults.append(
                Fault(
                    "fail",
                    says,
                    f"{RUN} (heals it), or redis-cli XSETID {quote(stream.key)} {stream.now_ms}-0 once it is empty",
                )
            )
    return judged("ids", faults, "no entry id lies in the future")
