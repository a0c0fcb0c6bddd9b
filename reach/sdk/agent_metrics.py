"""/metrics of an agent's process: what it runs, how long that takes, and how the process is."""

from collections.abc import Iterable
from contextlib import AbstractAsyncContextManager

from reach.sdk.metrics_page import metrics_page
from reach.sdk.runtime import AgentRun
from reach.tracing.readings import Reading


def metrics_served(run: AgentRun, host: str, port: int | None) -> AbstractAsyncContextManager[None]:
    """Inside, the page is there; arguments and errors as `metrics_page`."""

    def own() -> Iterable[Reading]:
        agent = (run.registration.agent_id,)
        yield Reading("reach_agent_running", len(run.runs), agent)
        yield Reading("reach_agent_slots", run.registration.concurrency, agent)

    return metrics_page(
        host,
        port,
        of=run.registration.agent_id,
        plays=("agent", "caller"),
        place=run.place,
        backend=run.backend,
        recorder=run.client.recorder,
        vitals=lambda: run.vitals,
        own=own,
    )
