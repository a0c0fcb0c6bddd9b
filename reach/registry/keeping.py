"""What records keep of one schema, written into the setting `privacy` of an env beside what it says of others."""

from reach.backend.port import Backend
from reach.envelope.privacy import Keeping, with_rule
from reach.registry.swapping import swap

SETTING = "privacy"


async def keep(backend: Backend, name: str, keeping: Keeping | None) -> str:
    """Say what is kept of `name`: a schema, a family, or a beginning such as `payments.*`; None = what the env says.

    Returns:
        The text of the whole setting.

    Raises:
        ValueError: `name` is none of these, or what is set cannot be read.
        ConfigError: Others write without end; nothing has changed.
        BackendError: It could not be written.
    """

    async def change() -> tuple[bytes | None, bytes, str]:
        there = (await backend.read_meta([SETTING])).get(SETTING)
        text = with_rule(None if there is None else there.decode(), backend.env, name, keeping)
        return there, text.encode(), text

    return await swap(backend, "meta", SETTING, SETTING, change)
