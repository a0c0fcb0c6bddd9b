"""An agent that knows the documentation: it reads signature and docstring of the library that is installed here.

    python -m examples.helpdesk.agents.docs_lookup --agent-id docs-lookup-01

Two of them share the work: same capability, different agent_id, so that reach chooses between them and one can stand in for the other.
"""

import asyncio

from examples.helpdesk.agents.command_line import Options, options
from examples.helpdesk.knowledge.lookup import look_up
from examples.helpdesk.messages import Docs, Intent
from examples.helpdesk.run_log import RunLog
from reach import Agent, Context, Reject


def make_agent(told: Options) -> Agent:
    agent = Agent(told.agent_id, description="Reads the documentation of the installed standard library.")
    runs = RunLog(told.agent_id, told.run_log)

    @agent.capability("stdlib.lookup", examples=["functools.lru_cache"])
    async def lookup(intent: Intent, ctx: Context) -> Docs:
        """Answer with the signature and the docstring of a name."""
        runs.start(ctx)
        await asyncio.sleep(told.pace)
        try:
            docs = look_up(intent.name)
        except LookupError as error:
            raise Reject("not_found", str(error)) from error
        finally:
            runs.end(ctx)
        return docs

    return agent


if __name__ == "__main__":
    make_agent(options("docs-lookup-01")).run()
