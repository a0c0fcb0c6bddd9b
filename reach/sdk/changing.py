"""Changes of what a running agent offers: told to its other instances, asked of the registry, and taken back where that says no."""

from collections.abc import Callable, Sequence

from reach.envelope.registration import Registration
from reach.errors import RegistrationRefused
from reach.sdk.handlers import Handler, Handlers
from reach.sdk.runtime import AgentRun

#: What an instance declares with the handlers that there are now.
Declared = Callable[[Registration], Registration]


async def add(handlers: Handlers, handler: Handler, runs: Sequence[AgentRun], declared: Declared) -> bool:
    """Offer one more. False: not before the other instances can do it, too.

    Raises:
        RegistrationRefused: Not allowed; it is offered by nobody.
        ValueError: There is one for the same.
    """
    handlers.add(handler)
    try:
        return await _declare(runs, declared)
    except RegistrationRefused:
        handlers.remove(handler)
        raise


async def remove(
    handlers: Handlers, name: str, schema: str | None, runs: Sequence[AgentRun], declared: Declared
) -> None:
    """Offer a capability no more, with one schema or any.

    Raises:
        RegistrationRefused: The registry does not take it; all is as before.
        ValueError: There is none.
    """
    meant = [one for one in handlers.offered if one.capability == name and schema in (None, one.schema)]
    if not meant:
        raise ValueError(f"no capability {name!r}{f' with schema {schema!r}' if schema else ''} is offered")
    for one in meant:
        handlers.withdraw(one)
    try:
        await _declare(runs, declared)
    except RegistrationRefused:
        for one in meant:
            handlers.offer_again(one)
        raise


async def _declare(runs: Sequence[AgentRun], declared: Declared) -> bool:
    """All instances of this process say what they can do before the first of them asks: they agree at once."""
    wanted = [(run, declared(run.membership.registration)) for run in runs]
    for run, registration in wanted:
        await run.announce(registration)
    try:
        answers = [await run.membership.declare() for run, _ in wanted]
    except RegistrationRefused:
        for run, registration in wanted:
            run.membership.take_back(registration)
        raise
    return all(answers[-1:])
