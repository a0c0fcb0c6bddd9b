"""Mutants of what is counted for people and autoscalers, and of tiers: each would tell a number or a tier that is not so."""

from tests.mutants.python import python

_DEMAND = "unit/delivery/test_demand.py::test_"
_WANTED = "unit/routing/test_wanted.py::test_"
_TIERS = "unit/routing/test_tiering.py::test_"

#: They change no message: no model explores them.
GUARDS = frozenset({"demand", "wanted", "tier"})

MUTANTS = (
    python(
        "demand, of what is new",
        "delivery/demand",
        "if result.known or case.envelope is None",
        "if case.envelope is None",
        _DEMAND + "only_what_is_new_counts_once_for_each_capability",
    ),
    python(
        "demand, of whoever lives",
        "delivery/demand",
        "abs(now_ms - one.at_ms) <= STALE_MS and ",
        "",
        _DEMAND + "a_router_that_is_gone_counts_no_more_and_leaves_nothing",
    ),
    python(
        "demand, bounded",
        "delivery/demand",
        "if capability not in self._arrivals and len(self._arrivals) >= MAX_CAPABILITIES:",
        "if len(self._arrivals) < 0:",
        _DEMAND + "made_up_capabilities_do_not_fill_the_memory",
    ),
    python(
        "demand, by one at a time",
        "delivery/demand",
        "if not await self._backend.lock(self.name, self._owner, LOCK_MS):",
        "if await self._backend.lock(self.name, self._owner, LOCK_MS) is None:",
        _DEMAND + "only_whose_turn_it_is_reckons",
    ),
    python(
        "demand, gone by itself",
        "backend/redis_backend/demand",
        ', ("PEXPIRE", key, DEMAND_TTL_MS)]',
        "]",
        "contract/test_demand.py::test_a_minute_after_the_last_it_is_gone",
    ),
    python(
        "demand, gone by itself in memory",
        "backend/memory_backend/demand",
        "            self._store.expire_at(key, self._store.now_ms() + DEMAND_TTL_MS)\n",
        "",
        "contract/test_demand.py::test_a_minute_after_the_last_it_is_gone",
    ),
    python(
        "wanted, fewer after a while",
        "routing/wanted",
        "if now_ms - since_ms >= down_after_ms:",
        "if now_ms >= since_ms:",
        _WANTED + "more_are_wanted_at_once_and_fewer_after_a_while",
    ),
    python(
        "wanted, the most meanwhile",
        "routing/wanted",
        "peak = max(held.low_peak, instances) if",
        "peak = instances if",
        _WANTED + "more_are_wanted_at_once_and_fewer_after_a_while",
    ),
    python(
        "wanted, after the clock went back",
        "routing/wanted",
        "if 0 < held.low_since_ms <= now_ms else",
        "if 0 < held.low_since_ms else",
        _WANTED + "a_clock_that_went_back_begins_the_wait_anew",
    ),
    python(
        "wanted, without noise",
        "routing/wanted",
        "if least <= instances <= held.instances + held.instances * NOISE_SHARE:",
        "if instances == held.instances and least:",
        _WANTED + "a_little_more_or_less_changes_nothing",
    ),
    python(
        "tier, of a body that is too large",
        "routing/tiering",
        "if len(body) > MAX_READ_BYTES:",
        "if len(body) < 0:",
        _TIERS + "what_cannot_be_read_goes_by_the_default_and_says_why",
    ),
    python(
        "tier, of the last step",
        "routing/tiering",
        "if size_bytes <= most:",
        "if size_bytes < most:",
        _TIERS + "by_size",
    ),
)
