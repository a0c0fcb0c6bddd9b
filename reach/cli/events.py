"""`reach events`: the hop records as they were written, of everything or of one conversation."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

import click
import msgspec

from reach.backend import open_backend
from reach.backend.port import Backend
from reach.cli import edge
from reach.envelope.rules import LAST_MOMENT_MS

#: the end of the year 9999, behind which there is no date
LAST_US = LAST_MOMENT_MS * 1000
PAGE = 100
BLOCK_MS = 1_000


@click.command()
@click.argument("name", required=False)
@click.option("-f", "--follow", is_flag=True, help="Go on as new records come, until Ctrl-C.")
@edge.with_place
@edge.with_output("text", "ndjson")
def events(name: str | None, follow: bool, redis_url: str, env: str, form: str) -> int:
    """Print hop records. NAME: only those of this message (msg_id) or conversation (correlation_id)."""
    if edge.run(_print(redis_url, env, name, follow=follow, form=form)) or name is None:
        return edge.OK
    edge.say(f"reach: no records of {name} in env {env}: they are kept for a day, and written by workers and agents")
    return edge.FAILED


async def _print(url: str, env: str, name: str | None, *, follow: bool, form: str) -> int:
    """How many there were."""
    backend = open_backend(url, env=env)
    try:
        await backend.open()
        kept: list[dict[str, Any]] = []
        async for record in _records(backend, follow=follow):
            if name is not None and name not in {record.get("msg_id"), record.get("correlation_id")}:
                continue
            if follow:
                _tell(record, form)
            else:
                kept.append(record)
        for record in sorted(kept, key=lambda found: found.get("at_us", 0)):
            _tell(record, form)
        return len(kept)
    finally:
        await backend.close()


async def _records(backend: Backend, *, follow: bool) -> AsyncIterator[dict[str, Any]]:
    cursors = dict.fromkeys(range(backend.partitions), "0-0")
    while True:
        came = False
        for partition, cursor in cursors.items():
            batches = await backend.read_events(
                partition, cursor, BLOCK_MS if follow and len(cursors) == 1 else 1, PAGE
            )
            for entry_id, batch in batches:
                cursors[partition] = entry_id
                came = True
                for record in _decoded(batch):
                    yield record
        if not came and not follow:
            return


def _decoded(batch: bytes) -> list[dict[str, Any]]:
    try:
        found = msgspec.json.decode(batch, type=list[dict[str, Any]])
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        edge.say("reach: a batch that cannot be read was left out")
        return []
    return [record for record in found if _has_moment(record)]


def _has_moment(record: dict[str, Any]) -> bool:
    """Whether it says when: what does not was written by nobody who knows what a record is."""
    at_us = record.get("at_us", 0)
    return type(at_us) is int and 0 <= at_us <= LAST_US


def _tell(record: dict[str, Any], form: str) -> None:
    if form == "ndjson":
        edge.data(edge.as_json(record, indent=0))
    else:
        edge.show(_line(record).replace("\n", "\\n"))


def _line(record: dict[str, Any]) -> str:
    moment = datetime.fromtimestamp(record.get("at_us", 0) / 1e6, UTC).strftime("%Y-%m-%d %H:%M:%S.%f")
    told = [str(record[name]) for name in ("agent", "chosen", "via", "code") if record.get(name)]
    return f"{moment}  {record.get('msg_id', ''):36}  {record.get('leg', 0)}  {record.get('point', ''):18}  {' '.join(told)}".rstrip()
