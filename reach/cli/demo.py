"""`reach demo`: the help desk, on real processes."""

import runpy
import sys
from pathlib import Path

import click

from reach.cli import edge

MODULE = "examples.helpdesk"
#: the source tree, and what a wheel carries of it
ROOTS = (Path(__file__).parents[2], Path(__file__).parent / "bundle")


@click.command(
    context_settings={"ignore_unknown_options": True, "allow_extra_args": True, "help_option_names": []},
    add_help_option=False,
)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def demo(arguments: tuple[str, ...]) -> int:
    """The help desk of the standard library: three kinds of agents, two routers, kills half-way. `--ask "..."` asks your own."""
    root = next((root for root in ROOTS if (root / "examples" / "helpdesk" / "__main__.py").is_file()), None)
    if root is None:
        if {"-h", "--help"}.intersection(arguments):
            click.echo(click.get_current_context().get_help())
            return edge.OK
        edge.say("reach: the help desk is not here (examples/helpdesk): this copy of reach is not whole")
        return edge.UNAVAILABLE
    sys.argv = [f"{MODULE} (reach demo)", *arguments]
    sys.path[:0] = [str(root), str(root / "workers")]
    try:
        runpy.run_module(MODULE, run_name="__main__", alter_sys=False)
    except click.exceptions.Abort:
        return edge.INTERRUPTED
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else edge.OK if end.code is None else edge.FAILED
    return edge.OK
