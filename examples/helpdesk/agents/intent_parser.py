"""An agent that says which name of the standard library a question is about.

    python -m examples.helpdesk.agents.intent_parser

It runs until SIGTERM or Ctrl-C; the server is REACH_REDIS_URL, else redis://localhost:6379.
"""

import asyncio

from examples.helpdesk.agents.command_line import Options, options
from examples.helpdesk.knowledge.parse import Parser
from examples.helpdesk.messages import Intent, Question
from examples.helpdesk.run_log import RunLog
from reach import Agent, Context, Reject


def make_agent(told: Options) -> Agent:
    agent = Agent(told.agent_id, description="Finds out what a question is about.")
    parser = Parser()  # takes a second; the agent registers when it is there
    runs = RunLog(told.agent_id, told.run_log)

    @agent.capability("helpdesk.parse", examples=["what does functools.lru_cache do?"])
    async def parse(question: Question, ctx: Context) -> Intent:
        """Say which module, class or function is asked about, and what for."""
        runs.start(ctx)
        await asyncio.sleep(told.pace)
        intent = parser.intent(question.text)
        runs.end(ctx)
        if intent is None:
            raise Reject("nothing_found", "no word of the question has to do with the standard library")
        return intent

    return agent


if __name__ == "__main__":
    make_agent(options("intent-parser")).run()
