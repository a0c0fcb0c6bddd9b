"""`python -m reach.cli`."""

from reach.cli import main

main(prog_name="reach")
