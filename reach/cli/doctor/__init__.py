"""`reach doctor`: looks at a server and an env, says what is wrong, and what helps. Changes nothing."""

import click

from reach.backend.survey import Survey, survey
from reach.cli import edge
from reach.cli.doctor import env_checks, flow_checks, server_checks
from reach.cli.doctor.finding import Check, Finding, worst
from reach.settings import safe_url

#: Asked of any server, also of one that is too old for the others.
OF_THE_SERVER: tuple[Check, ...] = (
    server_checks.version,
    server_checks.durability,
    server_checks.eviction,
    server_checks.memory,
    server_checks.latency,
    server_checks.clock,
    server_checks.rights,
)
OF_THE_ENV: tuple[Check, ...] = (
    server_checks.steps,
    env_checks.settings,
    env_checks.keys,
    env_checks.workers,
    env_checks.groups,
    env_checks.agents,
    env_checks.inboxes,
    flow_checks.lag,
    flow_checks.due,
    flow_checks.tick,
    flow_checks.pending,
    flow_checks.stream_ids,
    flow_checks.dead,
)


@click.command()
@edge.with_place
@edge.with_output("table", "json")
def doctor(redis_url: str, env: str, form: str) -> int:
    """Look at the server and the env, and say what is wrong and what helps. Changes nothing in it.

    Exit status: 0 nothing fails (there may be warnings), 1 something does, 69 the server cannot be reached or does not let us in.
    """
    findings = examine(edge.run(survey(redis_url, env)))
    status = worst(findings)
    if form == "json":
        told = {"env": env, "url": safe_url(redis_url), "status": status, "checks": findings}
        edge.data(edge.as_json(told))
    else:
        edge.show("\n".join(map(_shown, findings)))
        edge.say(f"env {env} at {safe_url(redis_url)}: {status}")
    return edge.FAILED if status == "fail" else edge.OK


def examine(seen: Survey) -> list[Finding]:
    """Every check that can be made, in the order in which causes come before their effects."""
    checks = OF_THE_SERVER if seen.records is None else OF_THE_SERVER + OF_THE_ENV
    return [check(seen) for check in checks]


def _shown(finding: Finding) -> str:
    """For people. What others have named must not look like a line of ours."""
    line = f"{finding.status:<5} {finding.check:<11} {_on_one_line(finding.says)}"
    return line + (f"\n{'':<17} -> {_on_one_line(finding.helps)}" if finding.helps else "")


def _on_one_line(text: str) -> str:
    return text.replace("\n", "\\n")
