"""The schemas' side: families and their JSON Schemas."""

from collections.abc import Sequence

from reach import ids
from reach.backend.bounds import MAX_SCHEMAS
from reach.backend.memory_backend.registry import RegistrySide
from reach.backend.schema_port import SchemaVerdict


class SchemaSide(RegistrySide):
    """What bodies look like; see `reach.backend.schema_port` for what each method promises."""

    async def write_schema(
        self, family: str, expected: bytes | None, record: bytes, name: str = "", schema: bytes = b""
    ) -> SchemaVerdict:
        def step() -> SchemaVerdict:
            families, schemas = self._peek_hash(self._keys.families()), self._peek_hash(self._keys.schemas())
            if families.get(family) != expected:
                return "changed"
            if schema and name not in schemas:
                most = ids.count_of(self._peek_hash(self._keys.meta()).get("max_schemas", b""))
                if len(schemas) >= (MAX_SCHEMAS if most is None else most):
                    return "full"
            self._put(self._keys.families(), family, record)
            if name:
                self._put(self._keys.schemas(), name, schema)
            self._tell(self._next_version(), "schema", family, record)
            return "done"

        return await self._step("write_schema", step)

    def _put(self, key: str, name: str, value: bytes) -> None:
        if value:
            self._hash(key)[name] = value
            return
        self._peek_hash(key).pop(name, None)
        self._store.drop_empty(key)

    async def read_schemas(self, names: Sequence[str]) -> dict[str, bytes]:
        return await self._fields("read_schemas", self._keys.schemas(), names)

    async def read_policies(self, patterns: Sequence[str]) -> dict[str, bytes]:
        return await self._fields("read_policies", self._keys.routes(), patterns)

    async def read_families(self, names: Sequence[str]) -> dict[str, bytes]:
        return await self._fields("read_families", self._keys.families(), names)

    async def read_meta(self, names: Sequence[str]) -> dict[str, bytes]:
        return await self._fields("read_meta", self._keys.meta(), names)

    async def _fields(self, what: str, key: str, names: Sequence[str]) -> dict[str, bytes]:
        def step() -> dict[str, bytes]:
            stored = self._peek_hash(key)
            return {name: stored[name] for name in names if name in stored}

        return await self._step(what, step) if names else {}
