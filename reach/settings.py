"""Settings of processes: read once, at the edge, from explicit options and the environment; all problems are told at once.

An option wins over its environment variable, which wins over the default; an empty variable counts as absent. docs/settings.md is made
from the table.
"""

import os
import re
import socket
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

import msgspec

from reach import ids
from reach.errors import ConfigError

DEFAULT_URL = "redis://localhost:6379"
ROLES: Final = ("router", "archiver", "alert-bridge")
LOG_FORMATS: Final = ("json", "console")
LOG_LEVELS: Final = ("debug", "info", "warning", "error")
URL_SCHEMES: Final = ("redis", "rediss", "unix", "memory")
MAX_PARTITION = 16_383
MAX_BATCH = 100
#: As in reach.envelope.token.
MIN_KEY_CHARS = 32


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """What a process was told. Durations in ms, sizes in bytes.

    `serve_partitions` None: all of them. `worker_id` "": the process makes one. `health_port` 0: no health server. `metrics_port`
    None: not said; 0: /metrics beside /livez alone.
    """

    redis_url: str
    env: str
    roles: tuple[str, ...]
    worker_id: str
    node_id: str
    health_host: str
    health_port: int
    metrics_port: int | None
    serve_partitions: tuple[int, ...] | None
    max_batch: int
    max_envelope_bytes: int
    drain_ms: int
    log_format: str
    log_level: str
    token_keys: tuple[str, ...]
    semantic: str
    event_store: str
    event_days: int
    receipt_hook: str
    receipt_hook_token: str
    trace_share: float | None
    trace_slow_ms: int
    alert_to: tuple[str, ...]
    alert_listen: str
    alert_token: str


class Setting(NamedTuple):
    """One line of the table: the option and variable that people write, and how their text becomes a value."""

    field: str
    option: str
    default: str
    read: Callable[[str], Any]
    help: str

    @property
    def variable(self) -> str:
        """The environment variable: `--redis-url` is REACH_REDIS_URL."""
        return "REACH_" + self.option.upper().replace("-", "_")


def load(environ: Mapping[str, str], options: Mapping[str, object] | None = None) -> Settings:
    """Read every setting.

    Args:
        environ: The environment.
        options: What was given explicitly, by field or option name; None means not given.

    Raises:
        ConfigError: `details["problems"]` has one sentence for each setting that cannot be used.
    """
    given = {name.replace("-", "_"): value for name, value in (options or {}).items() if value is not None}
    values: dict[str, Any] = {}
    problems = []
    for setting in TABLE:
        explicit = given.get(setting.option.replace("-", "_"), given.get(setting.field))
        text = str(explicit) if explicit is not None else environ.get(setting.variable) or setting.default
        where = f"--{setting.option}" if explicit is not None else setting.variable
        try:
            values[setting.field] = setting.read(text)
        except ValueError as error:
            problems.append(f"{where}: {_shown(setting, text)} {error}")
    kept = values.get("event_store") or values.get("receipt_hook") or otlp_wanted(environ)
    if "archiver" in values.get("roles", ()) and not kept:
        problems.append(
            "--event-store: the role archiver has nowhere to put records: sqlite:<folder>, jsonl:<folder> or es+http://..."
        )
    if "alert-bridge" in values.get("roles", ()) and values.get("alert_to") == ():
        problems.append("--alert-to: the role alert-bridge has nobody to tell: wecom=<address of the robot>, for one")
    if problems:
        raise ConfigError("; ".join(problems), details={"problems": problems})
    return Settings(**values)


def otel_disabled(environ: Mapping[str, str]) -> bool:
    """Whether the environment wants nothing of OpenTelemetry."""
    return environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true"


def otlp_wanted(environ: Mapping[str, str]) -> bool:
    """Whether the environment names a place for spans."""
    exporter = environ.get("OTEL_TRACES_EXPORTER", "")
    if otel_disabled(environ) or exporter == "none":
        return False
    return bool(
        exporter or environ.get("OTEL_EXPORTER_OTLP_ENDPOINT") or environ.get("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
    )


def environment() -> Mapping[str, str]:
    """The environment of this process: for what is never an option, such as the credentials of an event store."""
    return os.environ


def of_this_process(options: Mapping[str, object] | None = None) -> Settings:
    """`load` from the environment of this process: for programs that hand over none of their own."""
    return load(os.environ, options)


def default_node_id(host: str) -> str:
    """A node id from a host's name: what the grammar does not allow becomes a dash."""
    name = re.sub(r"[^A-Za-z0-9._-]", "-", host).lstrip("._-")[: ids.NAME_MAX]
    return name or "node"


def safe_url(url: str) -> str:
    """The address without its password, for logs and errors."""
    parts = urlsplit(url)
    if parts.password is None:
        return url
    return url.replace(f":{parts.password}@", ":***@", 1)


def markdown() -> str:
    """The table as docs/settings.md, which a test compares with the file."""
    lines = [
        "# Settings of `reach-worker`",
        "",
        "Made from `reach/settings.py`; written anew by",
        "`python -c \"from reach.settings import markdown; print(markdown(), end='')\" > docs/settings.md`.",
        "",
        "An option wins over its variable, which wins over the default. An empty variable counts as absent.",
        "",
        "| option | variable | default | what |",
        "|---|---|---|---|",
    ]
    lines += [
        f"| `--{s.option}` | `{s.variable}` | {f'`{s.default}`' if s.default else ''} | {s.help} |" for s in TABLE
    ]
    return "\n".join(lines) + "\n"


def _shown(setting: Setting, text: str) -> str:
    if setting.field in {"token_keys", "alert_to", "alert_token", "receipt_hook", "receipt_hook_token"}:
        return "***"
    return repr(safe_url(text) if setting.field == "redis_url" else text)


def secret_of(text: str) -> str:
    """A token or a key as a header of HTTP takes it: without the line end that files of secrets have.

    Raises:
        ValueError: It has characters that no header may have; the text does not show it.
    """
    secret = text.strip()
    if not secret.isascii() or not secret.isprintable():
        raise ValueError("has characters that no header of HTTP may have")
    return secret


def _url(text: str) -> str:
    try:
        parts = urlsplit(text)
        _ = parts.port
    except ValueError as error:
        raise ValueError(f"is no address: {error}") from None
    if parts.scheme not in URL_SCHEMES:
        raise ValueError(f"is no address: it starts with one of {', '.join(f'{scheme}://' for scheme in URL_SCHEMES)}")
    return text


def _env(text: str) -> str:
    if not ids.is_env(text):
        raise ValueError("is no env: lower-case letters, digits and dashes, at most 32, the first no dash")
    return text


def _roles(text: str) -> tuple[str, ...]:
    roles = tuple(dict.fromkeys(role.strip() for role in text.split(",") if role.strip()))
    unknown = [role for role in roles if role not in ROLES]
    if unknown or not roles:
        raise ValueError(f"names {', '.join(unknown) or 'no role'}; there is: {', '.join(ROLES)}")
    return roles


def _name(text: str) -> str:
    if text and not ids.is_name(text):
        raise ValueError("is no name: letters, digits, '.', '_', '-', at most 128, the first a letter or digit")
    return text


def _node(text: str) -> str:
    return _name(text) or default_node_id(socket.gethostname())


def _whole(least: int, most: int) -> Callable[[str], int]:
    def read(text: str) -> int:
        if not (text.isascii() and text.isdigit() and len(text) <= 12 and least <= int(text) <= most):
            raise ValueError(f"is no whole number from {least} to {most}")
        return int(text)

    return read


def _port(text: str) -> int | None:
    return _whole(0, 65_535)(text) if text else None


def _seconds(text: str) -> int:
    if not re.fullmatch(r"[0-9]{1,6}(\.[0-9]{1,3})?", text) or float(text) > 3600:
        raise ValueError("is no number of seconds from 0 to 3600")
    return round(float(text) * 1000)


def _share(text: str) -> float | None:
    if not text:
        return None
    if not re.fullmatch(r"[01]|0?\.[0-9]{1,9}|1\.0+", text):
        raise ValueError("is no share from 0 to 1, such as 0.05")
    return float(text)


def _partitions(text: str) -> tuple[int, ...] | None:
    if text == "all":
        return None
    found: set[int] = set()
    for part in text.split(","):
        match = re.fullmatch(r"\s*([0-9]{1,5})(?:-([0-9]{1,5}))?\s*", part)
        first, last = (int(match[1]), int(match[2] or match[1])) if match else (1, 0)
        if first > last or last > MAX_PARTITION:
            raise ValueError("is neither `all` nor partitions such as 0,2,4-7")
        found.update(range(first, last + 1))
    return tuple(sorted(found))


def _keys(text: str) -> tuple[str, ...]:
    keys = tuple(key.strip() for key in text.split(",") if key.strip())
    if any(len(key) < MIN_KEY_CHARS for key in keys):
        raise ValueError(f"has a key of less than {MIN_KEY_CHARS} characters, which can be guessed")
    return keys


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


def _listen(text: str) -> str:
    if (
        not re.fullmatch(r"(\[[0-9a-fA-F:.]+\]|[A-Za-z0-9.-]+):[0-9]{1,5}", text)
        or int(text.rpartition(":")[2]) > 65_535
    ):
        raise ValueError("is no <host>:<port>")
    return text


def _one_of(names: tuple[str, ...]) -> Callable[[str], str]:
    def read(text: str) -> str:
        if text.lower() not in names:
            raise ValueError(f"is not one of {', '.join(names)}")
        return text.lower()

    return read


TABLE: Final[tuple[Setting, ...]] = (
    Setting("redis_url", "redis-url", DEFAULT_URL, _url, "The address of Redis or Valkey."),
    Setting("env", "env", ids.DEFAULT_ENV, _env, "The environment; nothing of another one is seen."),
    Setting("roles", "roles", "router", _roles, f"What the worker does, joined by commas: {', '.join(ROLES)}."),
    Setting(
        "worker_id", "worker-id", "", _name, "Its name in Redis and in logs; made anew at each start where absent."
    ),
    Setting("node_id", "node-id", "", _node, "The machine; its host name where absent."),
    Setting("health_host", "health-host", "0.0.0.0", str, "Where /livez and /readyz listen."),  # noqa: S104 - probes come from outside
    Setting("health_port", "health-port", "8080", _whole(0, 65_535), "Their port; 0 = off."),
    Setting(
        "metrics_port",
        "metrics-port",
        "",
        _port,
        "Where /metrics listens beside the health port: 9464 for a worker, nowhere for an agent where absent; 0 = off.",
    ),
    Setting("serve_partitions", "serve-partitions", "all", _partitions, "`all`, or some, such as 0,2,4-7."),
    Setting("max_batch", "batch", "100", _whole(1, MAX_BATCH), "How many messages one step routes at most."),
    Setting(
        "max_envelope_bytes",
        "max-envelope-bytes",
        "1048576",
        _whole(1024, 512 << 20),
        "The largest envelope that is taken.",
    ),
    Setting("drain_ms", "drain-timeout", "10", _seconds, "Seconds that SIGTERM leaves for what is under way."),
    Setting("log_format", "log-format", "json", _one_of(LOG_FORMATS), f"One of {', '.join(LOG_FORMATS)}."),
    Setting("log_level", "log-level", "info", _one_of(LOG_LEVELS), f"One of {', '.join(LOG_LEVELS)}."),
    Setting(
        "token_keys",
        "token-keys",
        "",
        _keys,
        "Keys that registration tokens are signed with, joined by commas, 32 characters or more each; as a variable, not as an option.",
    ),
    Setting(
        "semantic",
        "semantic",
        "off",
        str,
        "What ranks `intent:` beside its words: off, on (the model of the extra `semantic`), or `module:function` of your own.",
    ),
    Setting(
        "event_store",
        "event-store",
        "",
        str,
        "Where an archiver keeps hop records: `sqlite:<folder>`, `jsonl:<folder>`, `es+http://<host>:9200/<name>` or `es+https`.",
    ),
    Setting("event_days", "event-days", "30", _whole(1, 36_500), "For how many days they are kept there."),
    Setting(
        "receipt_hook",
        "receipt-hook",
        "",
        str,
        "Where an archiver posts every terminal receipt as JSON, at least once: http:// or https://; nowhere where absent.",
    ),
    Setting("receipt_hook_token", "receipt-hook-token", "", secret_of, "The bearer token that goes with it."),
    Setting(
        "trace_share",
        "trace-share",
        "",
        _share,
        "The share of traces that is exported beside all that failed, were retried or slow; absent: 1 in env dev, else 0.1.",
    ),
    Setting(
        "trace_slow_ms", "trace-slow-ms", "10000", _whole(1, 3_600_000), "From how many ms on a conversation is slow."
    ),
    Setting(
        "alert_to",
        "alert-to",
        "",
        _words,
        "Whom the role alert-bridge tells, joined by spaces: `wecom=<address>`, `slack.ops=@<file>` (docs/alerts.md); best as a variable.",
    ),
    Setting("alert_listen", "alert-listen", "0.0.0.0:9095", _listen, "Where it takes what Alertmanager posts."),
    Setting(
        "alert_token",
        "alert-token",
        "",
        secret_of,
        "The bearer token that Alertmanager must send it; none where absent.",
    ),
)
