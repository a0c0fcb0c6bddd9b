"""`reach-worker`, `python -m reach_worker`."""

import signal


def main() -> None:
    """Run the command line. Ctrl-C while it is still being loaded ends it as SIGINT does, without a traceback."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    from reach_worker.cli import main as command_line

    command_line(prog_name="reach-worker")


if __name__ == "__main__":
    main()
