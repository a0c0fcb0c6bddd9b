"""What the steps of an env share: keys that are made anew where they hold the wrong type, and the log of changes. As `parts/env.lua`."""

from collections.abc import Mapping

from reach import ids
from reach.backend.keys import RedisType
from reach.backend.memory_backend.side import Side
from reach.backend.memory_backend.store import Hash, ZSet
from reach.backend.memory_backend.streams import BadId

MAX_CHANGES = 10_000
NOTHING: Mapping[bytes, bytes] = {}


class EnvSide(Side):
    """One step is what a single call of these does, or several without waiting between them."""

    def _version(self) -> int:
        stored = self._peek_hash(self._keys.meta()).get("v", b"0")
        return ids.count_of(stored) or 0

    def _next_version(self) -> int:
        """Every change has the next number, so that a reader sees a gap and takes a new snapshot."""
        version = self._version() + 1
        self._hash(self._keys.meta())["v"] = str(version).encode()
        return version

    def _tell(self, version: int, op: str, name: str, data: bytes, beside: Mapping[bytes, bytes] = NOTHING) -> int:
        key = self._keys.changes()
        self._own_stream(key)
        fields = {b"v": str(version).encode(), b"op": op.encode(), b"n": name.encode(), b"d": data, **beside}
        try:
            self._store.append(key, fields, mend=False, max_entries=MAX_CHANGES)
        except BadId:  # behind the last possible id there is none: the stream is made anew, which readers see as a gap
            self._store.delete(key)
            self._store.append(key, fields)
        return version

    def _hash(self, key: str) -> Hash:
        self._store.clear_wrong(key, "hash")
        return self._store.make_hash(key)

    def _zset(self, key: str) -> ZSet:
        self._store.clear_wrong(key, "zset")
        return self._store.make_zset(key)

    def _peek_hash(self, key: str) -> Hash:
        """To read: an empty one where there is none."""
        return self._store.hash(key) or Hash() if self._is(key, "hash") else Hash()

    def _peek_zset(self, key: str) -> ZSet:
        return self._store.zset(key) or ZSet() if self._is(key, "zset") else ZSet()

    def _is(self, key: str, wanted: RedisType) -> bool:
        self._store.clear_wrong(key, wanted)
        return self._store.exists(key)
