"""The schemas' part of the Backend protocol: JSON Schemas by name, in families. See `reach.backend.port`."""

from collections.abc import Sequence
from typing import Literal, Protocol

SchemaVerdict = Literal["done", "changed", "full"]


class SchemaPort(Protocol):
    """Steps on the schemas of an env."""

    async def write_schema(
        self, family: str, expected: bytes | None, record: bytes, name: str = "", schema: bytes = b""
    ) -> SchemaVerdict:
        """Compare and set the record of a family, and with it one of its schemas; one change entry tells the record.

        `expected`: the bytes that the caller read, None = absent. `record` b"" removes the family. `schema` b"" removes the one of that
        name. changed: another record lies there, nothing was written; full: `max_schemas` are stored. Again: `changed`, unless the
        record stays the same: then the same once more.
        """
        ...

    async def read_schemas(self, names: Sequence[str]) -> dict[str, bytes]:
        """The JSON Schemas of these names, as far as there are any. Read only."""
        ...

    async def read_policies(self, patterns: Sequence[str]) -> dict[str, bytes]:
        """The policies of these patterns, as far as there are any. Read only."""
        ...

    async def read_families(self, names: Sequence[str]) -> dict[str, bytes]:
        """The records of these families, as far as there are any. Read only."""
        ...

    async def read_meta(self, names: Sequence[str]) -> dict[str, bytes]:
        """These settings of the env, as far as they are set: for whoever is not told of changes. Read only."""
        ...
