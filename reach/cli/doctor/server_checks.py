"""Checks of the server: what it is, how it keeps things, how it answers."""

from reach.backend.survey import Survey
from reach.cli.doctor.finding import Fault, Finding, judged, spoken_ms, version_of

SLOW_MS, TOO_SLOW_MS, HICCUP_MS = 10, 100, 250
APART_MS = 2_000
WARN_SHARE, FAIL_SHARE = 0.80, 0.95


def version(survey: Survey) -> Finding:
    """Redis 7.0 or newer, Valkey 8 or newer, no Cluster, no replica."""
    info = survey.server.info
    valkey = info.get("valkey_version", "")
    name, told = ("Valkey", valkey) if valkey else ("Redis", info.get("redis_version", ""))
    faults = []
    if not told:
        faults.append(Fault("warn", "the server does not say its version", "redis-cli ACL SETUSER <user> +info"))
    elif version_of(told) < ((8, 0) if valkey else (7, 0)):
        faults.append(Fault("fail", f"this is {name} {told}; reach needs Redis 7.0 or Valkey 8, or newer"))
    if info.get("cluster_enabled") == "1":
        faults.append(
            Fault("fail", "the server is part of a Cluster, which reach cannot use yet: give it a single one")
        )
    if info.get("role") == "slave":
        master = f"{info.get('master_host', '?')}:{info.get('master_port', '?')}"
        faults.append(
            Fault(
                "fail",
                f"the server is a replica of {master}: nothing can be written",
                f"reach doctor --redis-url redis://{master}",
            )
        )
    return judged("version", faults, f"{name} {told}")


def durability(survey: Survey) -> Finding:
    """What a restart of the server would lose, and whether it still can write to its disk."""
    server = survey.server
    info = server.info
    faults = []
    if info.get("aof_enabled") == "1":
        kept = f"appendonly with fsync {server.fsync or 'as configured'}"
        if server.fsync == "no":
            faults.append(
                Fault(
                    "warn",
                    "appendfsync is no: a crash of the machine may lose minutes",
                    "redis-cli CONFIG SET appendfsync everysec",
                )
            )
        if info.get("aof_last_write_status") == "err" or info.get("aof_last_bgrewrite_status") == "err":
            faults.append(
                Fault(
                    "fail",
                    "the server cannot write its append-only file: is its disk full?",
                    "redis-cli INFO persistence",
                )
            )
    else:
        kept = "memory only"
        faults.append(
            Fault(
                "warn",
                "appendonly is off: a restart of the server loses accepted messages",
                "redis-cli CONFIG SET appendonly yes",
            )
        )
    if info.get("rdb_last_bgsave_status") == "err":
        faults.append(
            Fault(
                "fail",
                "the last snapshot failed, and the server may refuse to write: is its disk full?",
                "redis-cli INFO persistence",
            )
        )
    if server.min_replicas.isdigit() and int(server.min_replicas) > 0:
        wanted = int(server.min_replicas)
        kept += f", {wanted} replica(s)"
        if server.number("connected_slaves") < wanted:
            faults.append(
                Fault(
                    "fail",
                    f"{server.number('connected_slaves')} of {wanted} replicas are there: the server refuses to write",
                    "redis-cli INFO replication",
                )
            )
    return judged("durability", faults, kept)


def eviction(survey: Survey) -> Finding:
    """An evicted key is a lost message."""
    policy = survey.server.eviction
    faults = []
    if policy not in ("noeviction", ""):
        says = f"maxmemory-policy is {policy}: a full server would throw messages away"
        faults.append(Fault("fail", says, "redis-cli CONFIG SET maxmemory-policy noeviction"))
    return judged("eviction", faults, f"maxmemory-policy {policy or 'cannot be read'}")


def memory(survey: Survey) -> Finding:
    """How much room is left."""
    server = survey.server
    used, bound = server.number("used_memory"), server.number("maxmemory")
    what = "maxmemory" if bound else "the machine's memory"
    bound = bound or server.number("total_system_memory")
    if not bound:
        return judged("memory", [], f"{_mib(used)} used, the bound cannot be read")
    share = used / bound
    told = f"{_mib(used)} of {_mib(bound)} ({what}) used"
    faults = []
    if share >= WARN_SHARE:
        says = f"{share:.0%} full: {told}; a full server takes no new message and only drains"
        faults.append(
            Fault(
                "fail" if share >= FAIL_SHARE else "warn",
                says,
                "redis-cli --bigkeys; redis-cli CONFIG SET maxmemory <more>",
            )
        )
    return judged("memory", faults, told)


def _mib(size_bytes: int) -> str:
    return f"{size_bytes / (1 << 20):.1f} MiB" if size_bytes < 1 << 30 else f"{size_bytes / (1 << 30):.1f} GiB"


def latency(survey: Survey) -> Finding:
    """How long a round trip takes: a message needs about six."""
    pings = sorted(survey.server.pings_ms)
    median, longest = pings[len(pings) // 2], pings[-1]
    told = f"a round trip takes {median or 'under 1'} ms, the longest of {len(pings)} took {longest or 'under 1'} ms"
    faults = []
    if median >= SLOW_MS:
        faults.append(
            Fault("fail" if median >= TOO_SLOW_MS else "warn", told, "redis-cli --latency; redis-cli SLOWLOG GET 10")
        )
    elif longest >= HICCUP_MS:
        faults.append(
            Fault("warn", f"{told}: something stops the server", "redis-cli SLOWLOG GET 10; redis-cli LATENCY DOCTOR")
        )
    return judged("latency", faults, told)


def clock(survey: Survey) -> Finding:
    """How far the clocks are apart. Redis alone decides; but logs and timestamps of this machine would mislead."""
    apart_ms = survey.server.now_ms - survey.server.local_ms
    direction = "ahead of" if apart_ms > 0 else "behind"
    told = f"the server's clock is {spoken_ms(abs(apart_ms))} {direction} this machine's"
    faults = (
        [Fault("warn", f"{told}: logs of the two cannot be compared", "timedatectl status")]
        if abs(apart_ms) > APART_MS
        else []
    )
    return judged("clock", faults, told if apart_ms else "the clocks agree")


def steps(survey: Survey) -> Finding:
    """The server takes the steps of this version, and lets this user run them."""
    faults = [
        Fault("fail", f"the step {name} is refused: {said}", "redis-cli ACL WHOAMI; redis-cli ACL LOG 5")
        for name, said in survey.refused_steps
    ]
    return judged("scripts", faults, f"{survey.steps} steps load and run, as this version has them")


def rights(survey: Survey) -> Finding:
    """What this user may not look at."""
    faults = [
        Fault(
            "warn",
            f"{command} is not allowed: what it tells was not looked at",
            f"redis-cli ACL SETUSER <user> +{command.replace(' ', '|').lower()}",
        )
        for command in survey.denied
    ]
    return judged("rights", faults, "everything could be looked at")
