"""converse, spend: what the messages of a conversation do, and what they have used.

The hash of a conversation: n messages so far, i those of n that only the path of others has shown, c cost (millionths), t tokens, b the
budget (hops cost tokens, - for none), k what was written last; and marks, each led by its k:
m:<msg_id> k round depth, p:<pair> k depth turns since, s:<content> k depth times, r:<run> k.
"""

import re

from reach.backend.bounds import CONV_KEPT, CONV_MS, MAX_CONV_FIELDS, MOST_SPENT
from reach.backend.memory_backend.store import Hash, Store
from reach.backend.spent import FIELDS, Spent, Uncounted, spent_of
from reach.backend.steps import Over, Turn

MINUTE_MS = 60_000
Mark = tuple[int, int, int, int]

_COUNTS = frozenset("nictbk")
_NUMBER = re.compile(rb"[0-9]{1,14}")
_MARK = re.compile(rb"([0-9]{1,14}) ([0-9]{1,14}) ([0-9]{1,14}) ([0-9]{1,14})")
_NONE: Mark = (0, 0, 0, 0)


def converse(store: Store, key: str, turn: Turn, max_pair_rate: int, max_same_content: int) -> Over:
    """Count a message, or say what is over; then it is not counted."""
    stored = _stored(store, key)
    known, asked = _mark(stored.get(f"m:{turn.msg_id}")), _mark(stored.get(f"m:{turn.in_reply_to}"))
    k = min(_count(stored.get("k")) + 1, MOST_SPENT)
    if known is not None and known[1] >= turn.round:
        return Over()
    depth = turn.depth
    if asked is not None and turn.in_reply_to:
        depth = max(depth, min(asked[2] + 1, MOST_SPENT))
    sent, used = max(_count(stored.get("n")), depth), _count(stored.get("t"))
    over = _over_budget(turn, sent, _count(stored.get("c")), used)
    if over is not None:
        return over
    said: dict[str, bytes] = {}
    if turn.pair:
        now_ms = store.now_ms()
        since = _mark(stored.get(f"p:{turn.pair}"))
        if since is None or now_ms - since[3] >= MINUTE_MS or since[3] > now_ms:
            since = (0, 0, 0, now_ms)
        pair, content = _deeper(since, depth), _deeper(_mark(stored.get(f"s:{turn.content}")) or _NONE, depth)
        if 0 < max_pair_rate < pair[2]:
            return Over("pair", pair[2], max_pair_rate)
        if 0 < max_same_content < content[2]:
            return Over("content", content[2], max_same_content)
        said = {f"p:{turn.pair}": _marked(k, *pair[1:]), f"s:{turn.content}": _marked(k, content[1], content[2], 0)}
    counts = {
        "n": b"%d" % min(sent + 1, MOST_SPENT),
        "k": b"%d" % k,
        f"m:{turn.msg_id}": _marked(k, turn.round, depth, 0),
    }
    if turn.tokens:
        counts["t"] = b"%d" % min(used + turn.tokens, MOST_SPENT)
    if sent > _count(stored.get("n")):
        counts["i"] = b"%d" % min(_count(stored.get("i")) + sent - _count(stored.get("n")), MOST_SPENT)
    bounds = (turn.max_hops, turn.max_cost, turn.max_tokens)
    # Of the budgets in a conversation the one of who began it: those of handlers are for their own parts.
    if any(bound is not None for bound in bounds) and (turn.depth == 0 or "b" not in stored):
        counts["b"] = b" ".join(b"-" if bound is None else b"%d" % bound for bound in bounds)
    store.make_hash(key).update(counts | said)
    _keep(store, key, k)
    return Over()


def spend(store: Store, key: str, run: str, cost: int, tokens: int, of: Uncounted | None = None) -> bool:
    """Add what a run has used, and its message where nobody has counted that; False: the run is counted already."""
    stored = _stored(store, key)
    if f"r:{run}" in stored:
        return False
    k = min(_count(stored.get("k")) + 1, MOST_SPENT)
    used = min(_count(stored.get("t")) + tokens, MOST_SPENT)
    counts: dict[str, bytes] = {}
    if of is not None:
        known = _mark(stored.get(f"m:{of.msg_id}"))
        if known is None or known[1] < of.round:
            used = min(used + of.needs, MOST_SPENT)
            shown = _count(stored.get("i"))
            if shown:  # by the path of a message that came out of it
                counts["i"] = b"%d" % (shown - 1)
            else:
                counts["n"] = b"%d" % min(_count(stored.get("n")) + 1, MOST_SPENT)
            counts[f"m:{of.msg_id}"] = _marked(k, of.round, 0, 0)
    counts["c"] = b"%d" % min(_count(stored.get("c")) + cost, MOST_SPENT)
    counts |= {"t": b"%d" % used, "k": b"%d" % k, f"r:{run}": _marked(k, 0, 0, 0)}
    store.make_hash(key).update(counts)
    _keep(store, key, k)
    return True


def spent(store: Store, key: str) -> Spent | None:
    """What is counted; None: nothing."""
    stored = _stored(store, key)
    return spent_of([stored.get(name) for name in FIELDS])


def _over_budget(turn: Turn, sent: int, paid: int, used: int) -> Over | None:
    if turn.max_hops is not None and sent > turn.max_hops:
        return Over("hops", sent, turn.max_hops)
    if turn.max_cost is not None and paid and paid >= turn.max_cost:
        return Over("cost", paid, turn.max_cost)
    if turn.max_tokens is not None and ((used and used >= turn.max_tokens) or used + turn.tokens > turn.max_tokens):
        return Over("tokens", used + turn.tokens, turn.max_tokens)
    return None


def _deeper(mark: Mark, depth: int) -> Mark:
    """One more turn, where the message lies deeper in its conversation than the last one that counted."""
    k, deepest, turns, since = mark
    return (k, depth, turns + 1, since) if depth > deepest else mark


def _keep(store: Store, key: str, k: int) -> None:
    """Lives an hour from now. Of too many marks those go that were written longest ago; what is far too much was not written here."""
    store.expire_at(key, store.now_ms() + CONV_MS)
    stored = _stored(store, key)
    if len(stored) > 2 * MAX_CONV_FIELDS:
        store.delete(key)
    elif len(stored) > MAX_CONV_FIELDS:
        for name, value in list(stored.items()):
            mark = _mark(value)
            if name not in _COUNTS and (mark is None or not k - CONV_KEPT < mark[0] <= k):
                del stored[name]


def _stored(store: Store, key: str) -> Hash:
    store.clear_wrong(key, "hash")
    return store.hash(key) or Hash()


def _count(value: bytes | None) -> int:
    return int(value) if value is not None and _NUMBER.fullmatch(value) else 0


def _mark(value: bytes | None) -> Mark | None:
    found = _MARK.fullmatch(value) if value is not None else None
    return (int(found[1]), int(found[2]), int(found[3]), int(found[4])) if found else None


def _marked(k: int, a: int, b: int, c: int) -> bytes:
    return b"%d %d %d %d" % (k, a, b, c)
