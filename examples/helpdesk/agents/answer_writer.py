"""An agent that writes a short answer out of what was asked and what the documentation says.

python -m examples.helpdesk.agents.answer_writer
"""

import asyncio

from examples.helpdesk.agents.command_line import Options, options
from examples.helpdesk.knowledge.write import write
from examples.helpdesk.messages import Answer, Draft
from examples.helpdesk.run_log import RunLog
from reach import Agent, Context


def make_agent(told: Options) -> Agent:
    agent = Agent(told.agent_id, description="Writes readable answers.")
    runs = RunLog(told.agent_id, told.run_log)

    @agent.capability("helpdesk.write")
    async def write_answer(draft: Draft, ctx: Context) -> Answer:
        """Write the answer: signature, summary, and the part that the question is for."""
        runs.start(ctx)
        await asyncio.sleep(told.pace)
        answer = Answer(draft.docs.name, write(draft.intent, draft.docs))
        runs.end(ctx)
        return answer

    return agent


if __name__ == "__main__":
    make_agent(options("answer-writer")).run()
