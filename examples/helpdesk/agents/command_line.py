"""The options that the three programs have in common."""

import argparse

import msgspec


class Options(msgspec.Struct, frozen=True):
    """`pace`: seconds that a run takes at least, as a slow model would; 0 for as fast as it can. `run_log`: where runs are noted."""

    agent_id: str
    pace: float = 0.0
    run_log: str | None = None


def options(agent_id: str) -> Options:
    """Read the command line; `agent_id` is what the agent is called unless it says otherwise."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--agent-id", default=agent_id)
    parser.add_argument("--pace", type=float, default=0.0, metavar="SECONDS")
    parser.add_argument("--run-log", metavar="FILE")
    told = parser.parse_args()
    return Options(told.agent_id, told.pace, told.run_log)
