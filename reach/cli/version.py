"""`reach version`."""

import platform
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as installed

import click


@click.command()
def version() -> None:
    """Print the version of reach and of Python."""
    click.echo(f"reach {own_version()} (Python {platform.python_version()})")


def own_version() -> str:
    """The version that is installed."""
    try:
        return installed("reachmq")
    except PackageNotFoundError:  # run from a checkout that is not installed
        return "unknown"
