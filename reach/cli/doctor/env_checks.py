"""Checks of an env: its keys, settings, agents and workers."""

from shlex import quote

from reach import ids
from reach.backend.bounds import SETTINGS, TEXT_SETTINGS
from reach.backend.keys import GROUP_ROUTERS
from reach.backend.survey import Partition, StreamFacts, Survey
from reach.cli.doctor.finding import Fault, Finding, judged, spoken_ms, version_of
from reach.envelope.registration import MAX_PARTITIONS
from reach.routing.index import CapabilityIndex

#: A worker asks at least every 2 s; one that has not for so long is gone or hangs.
WORKER_SEEN_MS = 10_000
#: The reaper removes an agent after 30 s of silence; one that is silent longer has no reaper.
FORGOTTEN_MS = 60_000


def keys(survey: Survey) -> Finding:
    """Every key is of its type, with its lifetime, and in the table."""
    facts = survey.keys
    assert facts is not None
    faults = [
        Fault("fail", f"{key} {wrong}", f"redis-cli TYPE {quote(key)}; redis-cli DEL {quote(key)}")
        for key, wrong in facts.faults
    ]
    if not facts.whole:
        faults.append(Fault("warn", f"only {facts.count} keys were looked at; there are more"))
    return judged("keys", faults, f"{facts.count} keys, all as the key table says")


def settings(survey: Survey) -> Finding:
    """What an admin has set in meta."""
    assert survey.records is not None
    meta, faults = survey.records.meta, []
    for setting in SETTINGS:
        text = meta.get(setting.name)
        number = None if text is None else ids.count_of(text)
        if setting.name == "partitions" and text is not None and not 1 <= (number or 0) <= MAX_PARTITIONS:
            faults.append(
                Fault(
                    "fail",
                    f"partitions is {text!r}, no number from 1 to {MAX_PARTITIONS}: nobody can open the env",
                    _reset(survey, "partitions"),
                )
            )
        elif text is not None and number is None:
            faults.append(
                Fault(
                    "warn",
                    f"{setting.name} is {text!r}, no whole number: {1 if setting.name == 'closed' else setting.default} holds",
                    _reset(survey, setting.name),
                )
            )
    for one in TEXT_SETTINGS:
        problem = one.problem(meta[one.name]) if one.name in meta else None
        if problem is not None:
            text = f"{one.name} cannot be read, so nobody can register: {problem}"
            faults.append(Fault("fail", text, f"reach settings set {one.name} ..."))
    return judged(
        "settings", faults, f"{survey.partition_count} partition(s); {len(meta.keys() - {'v', 'partitions'})} more set"
    )


def _reset(survey: Survey, name: str) -> str:
    key = next((one.key for one in survey.env_streams if one.key.endswith(":control")), "")
    return f"redis-cli HDEL '{key.removesuffix('control')}meta' {name}"


def agents(survey: Survey) -> Finding:
    """Who is registered, and how each is."""
    assert survey.records is not None
    records, now_ms = survey.records, survey.records.now_ms
    faults: list[Fault] = []

    def complain(name: str, problem: str) -> None:
        helps = "restart that agent: it registers anew"
        if name in records.routes:
            helps = "write that policy anew"
        elif name in records.rules and name not in records.agents:
            helps = f"reach rules set {quote(name)}, or rm"
        faults.append(Fault("fail", f"the record of {name} cannot be read: {problem}", helps))

    index = CapabilityIndex(complain)
    index.load(records.agents, records.routes, (), records.meta, records.circuits, records.rules)
    for agent_id, instance_id, at_ms, beat in records.beats:
        index.beat(agent_id, instance_id, at_ms, beat)
    since_ms, ready = index.alive_since_ms(now_ms), 0
    for agent_id, agent in sorted(index.agents.items()):
        state, reason = agent.state(since_ms), agent.reason(since_ms)
        if state in ("ready", "busy"):
            ready += 1
        elif state == "silent":
            faults.append(_silent(agent_id, now_ms - agent.last_beat_ms() if agent.last_beat_ms() else None))
        else:
            told = f"{agent_id} is {state.replace('_', ' ')}" + (f": {reason}" if reason else "")
            faults.append(Fault("warn", told, "reach agents"))
    faults += [
        Fault(
            "warn",
            f"the circuit of {agent_id} is open in partition {partition}: {circuit.why}",
            "look at its log; reach agents",
        )
        for agent_id, partitions in sorted(index.circuits.items())
        for partition, circuit in sorted(partitions.items())
    ]
    if not records.agents:
        faults.append(
            Fault(
                "warn",
                "no agent is registered: whatever is sent ends as route.not_found",
                "start an agent: agent.run(url=...)",
            )
        )
    return judged("agents", faults, f"{ready} registered, all ready")


def _silent(agent_id: str, silent_ms: int | None) -> Fault:
    if silent_ms is None:
        return Fault("warn", f"{agent_id} is registered and has never beaten", "reach agents")
    if silent_ms < FORGOTTEN_MS:
        return Fault("warn", f"{agent_id} is suspect: silent for {spoken_ms(silent_ms)}", "reach agents")
    return Fault(
        "fail", f"{agent_id} is silent for {spoken_ms(silent_ms)}, and no worker has removed it", "reach-worker run"
    )


def workers(survey: Survey) -> Finding:
    """Somebody serves every partition, and the registrations."""
    control = survey.env_streams[0]
    faults, seen = [], set(active_in(control))
    for partition in survey.partitions:
        active = {name for door in partition.doors for name in active_in(door)}
        seen |= active
        if not active and not _ticks_unseen(survey, partition):
            says = f"no worker reads partition {partition.number}: what is sent there waits"
            faults.append(Fault("fail", says, "reach-worker run"))
    if not active_in(control) and "XINFO CONSUMERS" not in survey.denied:
        faults.append(Fault("fail", "no worker reads the registrations: new agents wait", "reach-worker run"))
    return judged("workers", faults, f"{len(seen)} active: {', '.join(sorted(seen)[:5])}")


def _ticks_unseen(survey: Survey, partition: Partition) -> bool:
    """Where readers cannot be seen: Redis before 7.2 notes when one was given something, not when it asked. There due speaks for them."""
    info = survey.server.info
    blind = "valkey_version" not in info and version_of(info.get("redis_version", "")) < (7, 2)
    if not blind and "XINFO CONSUMERS" not in survey.denied:
        return False
    return partition.tick_last_ms is not None and partition.now_ms - partition.tick_last_ms < WORKER_SEEN_MS


def active_in(stream: StreamFacts) -> list[str]:
    """Who reads this stream now."""
    return [consumer.name for consumer in stream.consumers if consumer.idle_ms < WORKER_SEEN_MS]


def groups(survey: Survey) -> Finding:
    """Every door is a stream with its group."""
    faults = []
    for door in [survey.env_streams[0], *(door for partition in survey.partitions for door in partition.doors)]:
        if door.is_stream and not door.has_group and "XINFO CONSUMERS" not in survey.denied:
            says = f"{door.key} has no group {door.group}: nobody reads its {door.length} entries"
            faults.append(
                Fault(
                    "fail",
                    says,
                    f"reach-worker run (makes it), or redis-cli XGROUP CREATE {quote(door.key)} {door.group} 0",
                )
            )
        elif door.type == "none" and door.group == GROUP_ROUTERS:
            faults.append(Fault("warn", f"{door.key} is missing", "reach-worker run (makes it)"))
    return judged("groups", faults, "every door has its group")


def inboxes(survey: Survey) -> Finding:
    """Every registered agent has its inboxes, with their group and with room; nobody else has one."""
    assert survey.keys is not None
    assert survey.records is not None
    most = ids.count_of(survey.records.meta.get("max_inbox", "")) or next(
        s.default for s in SETTINGS if s.name == "max_inbox"
    )
    faults, looked = [], 0
    for inbox in (inbox for partition in survey.partitions for inbox in partition.inboxes):
        looked += 1
        if inbox.type == "none":
            faults.append(
                Fault(
                    "fail",
                    f"{inbox.key} is missing: {inbox.agent_id} gets nothing there",
                    f"restart {inbox.agent_id}: it opens its inboxes",
                )
            )
        elif inbox.is_stream and not inbox.has_group and "XINFO CONSUMERS" not in survey.denied:
            faults.append(
                Fault(
                    "fail",
                    f"{inbox.key} has no group {inbox.group}: {inbox.agent_id} cannot take from it",
                    f"redis-cli XGROUP CREATE {quote(inbox.key)} {inbox.group} 0",
                )
            )
        elif inbox.length >= most:
            faults.append(
                Fault(
                    "warn",
                    f"{inbox.key} is full: {inbox.length} entries of {most}",
                    f"start more instances of {inbox.agent_id}",
                )
            )
    faults += [
        Fault(
            "warn",
            f"{name} has an inbox and is not registered",
            "reach-worker run (the reaper closes it when nothing is pending)",
        )
        for name in survey.keys.orphans
    ]
    if survey.agents_left_out:
        faults.append(Fault("warn", f"the inboxes of {survey.agents_left_out} agents were not looked at"))
    return judged("inboxes", faults, f"{looked} lanes of {len(survey.records.agents)} agents")
