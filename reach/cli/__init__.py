"""`reach`: the command line for people. Data goes to stdout, talk to stderr.

Exit status: 0, 1 the answer was a failure, 2 usage, 69 Redis cannot be used, 75 try later (also a timeout), 78 bad settings, 130 Ctrl-C.
"""

import click

from reach.cli import (
    accepting,
    agents,
    answering,
    cancelling,
    capacity,
    conversation,
    dead,
    decided,
    demo,
    dev,
    doctor,
    env_settings,
    events,
    explaining,
    messages,
    replaying,
    routes,
    rules,
    schemas,
    scripts,
    searching,
    token,
    top,
    tracing,
    types,
    version,
)
from reach.cli.edge import Commands


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="reachmq", prog_name="reach")
def main() -> None:
    """Let agents reach each other: identify who can do it, see that they can, deliver, endure.

    Exit status: 0, 1 the answer was a failure, 2 usage, 69 Redis cannot be used, 75 try later, 78 bad settings, 130 Ctrl-C.
    """


routes.routes.add_command(explaining.test_)
for command in (
    dev.dev,
    demo.demo,
    messages.send,
    messages.request,
    cancelling.cancel,
    answering.answer,
    agents.agents,
    capacity.capacity,
    events.events,
    searching.tail,
    top.top,
    tracing.trace,
    decided.explain,
    replaying.replay_,
    conversation.conversation,
    dead.dead,
    routes.routes,
    accepting.accepts,
    schemas.schemas,
    types.types,
    rules.rules,
    doctor.doctor,
    token.token,
    env_settings.settings,
    scripts.scripts,
    version.version,
):
    main.add_command(command)
