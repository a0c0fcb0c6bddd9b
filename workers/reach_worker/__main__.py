"""`python -m reach_worker`."""

from reach_worker.cli import main

main(prog_name="reach-worker")
