"""An agent as a process: it starts when Redis comes, serves until it is told to stop, and drains."""

import asyncio
from typing import Protocol

from reach import settings
from reach.errors import ConfigError
from reach.log import event_log
from reach.sdk.agent_metrics import metrics_served
from reach.sdk.declaration import served
from reach.sdk.embedded import place_of
from reach.sdk.nobody import complaining, sentence
from reach.sdk.places import Place
from reach.sdk.runtime import AgentRun, until_refused_or
from reach.sdk.stopping import Stop

log = event_log("reach.agent")


class Servable(Protocol):
    """An agent, as far as a process must know one."""

    template: str

    @property
    def has_handlers(self) -> bool: ...

    def new_run(self, place: Place) -> AgentRun: ...


async def serve(
    agent: Servable,
    url: str | None,
    env: str | None,
    *,
    grace_ms: int,
    wait_ms: int = 0,
    metrics_port: int | None = None,
) -> None:
    """Run one instance until this is cancelled, or until SIGTERM or SIGINT; then let it drain for `grace_ms`.

    `wait_ms`: how long other instances that declare something else are waited for.

    Raises:
        RegistrationRefused: The registrar said no.
        ConfigError: url or env cannot be used, or there is no handler.
        BackendError: Redis refuses the credentials. A Redis that cannot be reached is waited for.
    """
    told, stop = settings.of_this_process({"redis-url": url, "env": env, "metrics-port": metrics_port}), Stop()
    with stop.signals():
        if not agent.has_handlers:
            text = (
                f"agent {agent.template!r} has no handler: decorate one with @agent.capability(...) or @agent.on(...)"
            )
            raise ConfigError(text)
        run = agent.new_run(place_of(url, env))
        try:
            if not await _started(run, stop, wait_ms, told):
                return
            log.info("serving", extra=served(run.registration, told))
            async with metrics_served(run, told.health_host, told.metrics_port):
                await until_refused_or(run, stop.event)
        finally:
            await run.stop(grace_ms)  # also where it was told to stop as it had just started


async def _started(run: AgentRun, stop: Stop, wait_ms: int, told: settings.Settings) -> bool:
    """Start it; False when `stop` came first: a Redis that never comes must not hold up a shutdown."""
    try:
        async with asyncio.timeout(None) as scope:
            with stop.interrupting(scope):
                async with complaining(
                    run.backend, run.place.clock, lambda: log.warning(sentence(told.redis_url, told.env))
                ):
                    await run.start(wait_ms)
    except TimeoutError:
        return False
    return True
