"""Turns at an empty bucket: who waits for a rate limit has a moment of its own, keeps it while it looks again, and nobody passes it.

Plain: moments in, moments out. Each router has its own; what they agree on is the bucket alone.
"""

import msgspec

#: Who waits looks again every 2 s. One that has not for so long waits no more, or with another router.
SEEN_MS = 10_000
MAX_TURNS = 10_000


class Turns(msgspec.Struct):
    """What this router knows of one bucket.

    Attributes:
        empty_until_ms: Before that there is nothing in it for a message that needs `tokens`.
        next_ms: When whoever comes new may have it: behind all who have a turn.
        at_ms: msg_id -> its turn but for `later_ms`, the first one first.
        later_ms: So much later than they were given are all turns now.
        seen_ms: msg_id -> when it was asked for last, the longest ago first.
    """

    empty_until_ms: int
    tokens: int
    next_ms: int = 0
    later_ms: int = 0
    at_ms: dict[str, int] = {}
    seen_ms: dict[str, int] = {}

    def wait_ms(self, msg_id: str, tokens: int, now_ms: int) -> int:
        """In how many ms the message may have its turn; 0: it may ask for it now."""
        if msg_id in self.at_ms:
            is_first = next(iter(self.at_ms)) == msg_id
            behind_ms = 0 if is_first else self.at_ms[msg_id] + self.later_ms
        elif tokens < self.tokens:
            return 0
        else:
            behind_ms = self.next_ms
        return max(self.empty_until_ms, behind_ms, now_ms) - now_ms

    def emptied(self, msg_id: str, wait_ms: int, tokens: int, now_ms: int) -> None:
        """The message has asked, and there is nothing in it. Where that was at its turn, all turns are so much later: one at a time."""
        self.empty_until_ms, self.tokens = now_ms + wait_ms, tokens
        if msg_id in self.at_ms:
            missed_ms = max(self.empty_until_ms - self.at_ms[msg_id] - self.later_ms, 0)
            self.later_ms += missed_ms
            self.next_ms += missed_ms

    def give(self, msg_id: str, wait_ms: int, apart_ms: int, now_ms: int) -> None:
        """The message waits: it has that turn, if it has none, and whoever comes next a later one."""
        if msg_id not in self.at_ms:
            if len(self.at_ms) >= MAX_TURNS:
                return
            self.at_ms[msg_id] = now_ms + wait_ms - self.later_ms
            self.next_ms = now_ms + wait_ms + apart_ms
        self.seen_ms.pop(msg_id, None)
        self.seen_ms[msg_id] = now_ms

    def drop(self, msg_id: str) -> None:
        """It has had its turn, or waits no more."""
        self.seen_ms.pop(msg_id, None)
        if self.at_ms.pop(msg_id, None) is not None and not self.at_ms:
            self.next_ms = self.later_ms = 0

    def is_over(self, now_ms: int) -> bool:
        """Whether nobody has to wait for it, as far as is known."""
        while self.seen_ms:
            msg_id, at_ms = next(iter(self.seen_ms.items()))
            if now_ms - at_ms < SEEN_MS:
                break
            self.drop(msg_id)
        return not self.at_ms and self.empty_until_ms <= now_ms
