"""The one list of metrics: names, what they count, labels, and which process tells them. docs/metrics.md is made from it.

A label has values from a closed list, or at most `MAX_NAMES` names and then `other`; never an id. What describes the whole env (who: env)
is told by one router at a time, so that a sum over all processes counts it once.
"""

from typing import Final, Literal, NamedTuple

from reach.envelope.codes import TABLE as CODES

Kind = Literal["counter", "gauge", "histogram", "info"]
Who = Literal[
    "every process", "router", "agent", "caller", "env", "archiver", "exporter", "receipt hook", "alert bridge"
]

#: Bounds of all histograms, seconds. Up to 10 s as the alerts ask; two more, so that a quantile over 10 s can be told.
BOUNDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
#: So many agents and capabilities have a series of their own.
MAX_NAMES: Final = 100
OTHER: Final = "other"

_KNOWN: Final = frozenset(line.code for line in CODES)


class Metric(NamedTuple):
    """One line of the list.

    Attributes:
        name: As it is scraped.
        kind: Counter, gauge, histogram or info.
        who: Which processes tell it.
        help: What it says, in one sentence.
        labels: The names of its labels.
        begins: Values of the only label that are told as 0 before anything has happened.
    """

    name: str
    kind: Kind
    who: Who
    help: str
    labels: tuple[str, ...] = ()
    begins: tuple[str, ...] = ()


METRICS: Final[tuple[Metric, ...]] = (
    Metric("reach_build", "info", "every process", "Version of reach and of Python.", ("version", "python")),
    Metric(
        "reach_redis_up",
        "gauge",
        "every process",
        "1 where Redis answered this process when it was asked last, which is every 5 s.",
    ),
    Metric("reach_loop_lag_seconds", "gauge", "every process", "How late the event loop was at worst within 10 s."),
    Metric(
        "reach_service_failures",
        "gauge",
        "every process",
        "How often a service of this process has failed in a row.",
        ("service",),
    ),
    Metric("reach_events_dropped_total", "counter", "every process", "Hop records lost because their buffer was full."),
    Metric("reach_events_waiting", "gauge", "every process", "Hop records that are not written yet."),
    Metric(
        "reach_messages_in_total",
        "counter",
        "router",
        "Envelopes that were taken from the doors: each once, refused ones and duplicates as well.",
    ),
    Metric(
        "reach_route_success_total",
        "counter",
        "router",
        "Hand-overs to an agent, those of later attempts as well.",
    ),
    Metric(
        "reach_route_fail_total",
        "counter",
        "router",
        "Messages refused, and legs ended because nobody took them, by code.",
        ("reason",),
        ("route.not_found", "route.no_candidate"),
    ),
    Metric(
        "reach_delivery_duration_seconds",
        "histogram",
        "router",
        "From accepted (or its not_before) to the inbox of its first agent, by the clock of Redis.",
    ),
    Metric(
        "reach_retries_total",
        "counter",
        "router",
        "Attempts that came back and go again, by the code of the attempt.",
        ("reason",),
        ("handler.error", "agent.lost"),
    ),
    Metric(
        "reach_reclaims_total",
        "counter",
        "router",
        "Runs taken from an agent that was lost, gone or overdue, by code.",
        ("reason",),
        ("agent.lost",),
    ),
    Metric("reach_moves_total", "counter", "router", "Messages moved from one inbox to another, unread."),
    Metric(
        "reach_expired_total",
        "counter",
        "router",
        "Legs ended because their time was over, by code.",
        ("reason",),
        ("timeout.total", "ttl.expired"),
    ),
    Metric("reach_cancelled_total", "counter", "router", "Legs that their sender cancelled, where a router saw it."),
    Metric(
        "reach_dead_letters_total",
        "counter",
        "router",
        "Legs put among the dead letters, by code.",
        ("reason",),
        ("handler.error",),
    ),
    Metric(
        "reach_runs_total",
        "counter",
        "agent",
        "Runs that an agent with the SDK has ended, by code; a code of its own counts as `other`.",
        ("agent", "code"),
    ),
    Metric("reach_agent_running", "gauge", "agent", "Messages that this process runs now.", ("agent",)),
    Metric("reach_agent_slots", "gauge", "agent", "Messages that this process may run at once.", ("agent",)),
    Metric(
        "reach_queue_duration_seconds",
        "histogram",
        "agent",
        "From the inbox into the hands of the agent, by the clock of Redis.",
    ),
    Metric("reach_processing_duration_seconds", "histogram", "agent", "From taken to answered."),
    Metric("reach_request_duration_seconds", "histogram", "caller", "From sent to its receipt, at whoever asked."),
    Metric("reach_workers", "gauge", "env", "Workers that live, by role.", ("role",)),
    Metric("reach_agents", "gauge", "env", "Agents that are registered and live."),
    Metric(
        "reach_recorders_lost_total",
        "counter",
        "router",
        "Processes that ended without a word: their last hop records may be missing, and a gap says so.",
    ),
    Metric(
        "reach_agents_offline",
        "gauge",
        "env",
        "Agents gone within 24 h and not back, by why: left, silent, removed.",
        ("why",),
    ),
    Metric(
        "reach_stream_lag",
        "gauge",
        "env",
        "Entries that nobody has taken: ingress, again, receipts, control; inbox by agent.",
        ("stream", "agent"),
    ),
    Metric(
        "reach_stream_pending",
        "gauge",
        "env",
        "Entries that somebody has taken and not finished, by stream; inbox by agent.",
        ("stream", "agent"),
    ),
    Metric(
        "reach_oldest_pending_seconds",
        "gauge",
        "env",
        "Age of the oldest entry that is not finished, taken or not; 0 where there is none.",
        ("stream",),
    ),
    Metric("reach_inflight", "gauge", "env", "Messages in the hands of agents now.", ("agent",)),
    Metric("reach_dead_letters_kept", "gauge", "env", "Dead letters that lie there now."),
    Metric("reach_circuits_open", "gauge", "env", "Circuits (agent and partition) that are not closed."),
    Metric(
        "reach_capability_instances_wanted",
        "gauge",
        "env",
        "Instances that a capability wants for what is asked of it.",
        ("capability",),
    ),
    Metric("reach_archiver_lag", "gauge", "env", "Batches of hop records that no archiver has kept yet."),
    Metric(
        "reach_archiver_lag_seconds",
        "gauge",
        "env",
        "Age of the oldest batch of hop records that no archiver has kept yet.",
    ),
    Metric("reach_archived_total", "counter", "archiver", "Hop records that this process has kept."),
    Metric(
        "reach_archive_missed_total",
        "counter",
        "archiver",
        "Batches trimmed from Redis before they were kept: each a part of a gap in the store.",
    ),
    Metric(
        "reach_archive_refused_total",
        "counter",
        "archiver",
        "Hop records that the store would not have as they are: it has them as mere bytes, or not at all.",
    ),
    Metric(
        "reach_archive_lost_total",
        "counter",
        "archiver",
        "Hop records that were read and are in no store, by why: unreadable (junk; a whole batch of it counts as one), refused.",
        ("why",),
        ("unreadable", "refused"),
    ),
    Metric(
        "reach_archive_failures_total", "counter", "archiver", "Attempts to keep records that the store has not taken."
    ),
    Metric("reach_spans_exported_total", "counter", "exporter", "Spans that the collector has taken."),
    Metric("reach_spans_refused_total", "counter", "exporter", "Spans that the collector will never take."),
    Metric(
        "reach_spans_missed_total", "counter", "exporter", "Batches trimmed from Redis before their spans were made."
    ),
    Metric("reach_receipts_posted_total", "counter", "receipt hook", "Receipts that the hook has taken."),
    Metric("reach_receipts_given_up_total", "counter", "receipt hook", "Receipts that the hook has not taken."),
    Metric(
        "reach_receipts_missed_total",
        "counter",
        "receipt hook",
        "Batches trimmed from Redis before their receipts were posted.",
    ),
    Metric("reach_alerts_sent_total", "counter", "alert bridge", "Notifications that a chat has taken.", ("chat",)),
    Metric(
        "reach_alerts_failed_total", "counter", "alert bridge", "Tries to tell a chat that it has not taken.", ("chat",)
    ),
    Metric(
        "reach_alerts_retried_total",
        "counter",
        "alert bridge",
        "Tries to tell a chat that came after a failed one.",
        ("chat",),
    ),
    Metric(
        "reach_alerts_dropped_total",
        "counter",
        "alert bridge",
        "Notifications that were given up: refused, too old, or left at the end.",
        ("chat",),
    ),
    Metric("reach_alerts_waiting", "gauge", "alert bridge", "Notifications that wait for a chat.", ("chat",)),
    Metric(
        "reach_alerts_last_sent_timestamp_seconds",
        "gauge",
        "alert bridge",
        "When a chat has last taken something, Unix seconds; told once it has.",
        ("chat",),
    ),
)


def known_code(code: str) -> str:
    """The code as a label: one of the table, `ok` where it says nothing, else `other`, since agents make up codes of their own."""
    return code if code in _KNOWN else OTHER if code else "ok"


def markdown() -> str:
    """The list as docs/metrics.md has it, between its marks; a test compares."""
    lines = ["| metric | kind | told by | what |", "|---|---|---|---|"]
    for one in METRICS:
        name = one.name + ("_info" if one.kind == "info" else "")
        labels = "{" + ", ".join(one.labels) + "}" if one.labels else ""
        lines.append(f"| `{name}{labels}` | {one.kind} | {one.who} | {one.help} |")
    return "\n".join(lines) + "\n"
