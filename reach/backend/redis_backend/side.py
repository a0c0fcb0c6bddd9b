"""What every side of the Redis backend holds."""

from reach.backend.connection import Link
from reach.backend.keys import KeySpace
from reach.backend.redis_backend.streams import Streams


class Side:
    """The connections, the names of the keys, and the streams of one env."""

    def __init__(self, link: Link, keys: KeySpace) -> None:
        self._link = link
        self._keys = keys
        self._streams = Streams(link)
        self.partitions = 1
