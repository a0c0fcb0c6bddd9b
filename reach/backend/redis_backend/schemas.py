"""The schemas' side: families and their JSON Schemas."""

from collections.abc import Sequence
from typing import cast

from reach.backend.redis_backend.registry import RegistrySide
from reach.backend.redis_backend.streams import text_of
from reach.backend.schema_port import SchemaVerdict
from reach.backend.scripts import script


class SchemaSide(RegistrySide):
    """What bodies look like; see `reach.backend.schema_port` for what each method promises."""

    async def write_schema(
        self, family: str, expected: bytes | None, record: bytes, name: str = "", schema: bytes = b""
    ) -> SchemaVerdict:
        known = int(expected is not None)
        argv = (family, known, expected or b"", record, name, schema)
        return cast("SchemaVerdict", text_of(await self._link.run(script("write_schema"), self._keys.agents(), *argv)))

    async def read_schemas(self, names: Sequence[str]) -> dict[str, bytes]:
        return await self._fields(self._keys.schemas(), names)

    async def read_policies(self, patterns: Sequence[str]) -> dict[str, bytes]:
        return await self._fields(self._keys.routes(), patterns)

    async def read_families(self, names: Sequence[str]) -> dict[str, bytes]:
        return await self._fields(self._keys.families(), names)

    async def read_meta(self, names: Sequence[str]) -> dict[str, bytes]:
        return await self._fields(self._keys.meta(), names)

    async def _fields(self, key: str, names: Sequence[str]) -> dict[str, bytes]:
        values = await self._healing(key, "hash", "HMGET", key, *names) if names else None
        return {name: value for name, value in zip(names, values or (), strict=False) if value is not None}
