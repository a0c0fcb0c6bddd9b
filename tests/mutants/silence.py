"""Mutants of what tells the silence of agents from that of the server, and from that of the one who looks."""

from tests.mutants.lua_routers import lua
from tests.mutants.memory_routers import memory
from tests.mutants.mutant import Mutant
from tests.mutants.python import python

COMES_BACK = "gone::test_who_has_shown_life_since_is_not_removed"
INSTANCE_COMES_BACK = "gone::test_an_instance_that_has_shown_life_since_is_not_forgotten"
AHEAD = "gone::test_a_beat_from_the_future_counts_from_now"
ALONE = "unit/registry/test_silence.py::"
NO_WRITES = ALONE + "test_a_server_that_takes_no_writes_makes_nobody_suspect_and_removes_nobody"

MUTANTS: tuple[Mutant, ...] = (
    lua("silence asked again", "remove.lua", "  if at >= before then return 0 end\n", "", COMES_BACK),
    memory(
        "silence asked again",
        "registry",
        "if stored != expected or any(at_ms >= before_ms for at_ms in seen_ms):",
        "if stored != expected:",
        COMES_BACK,
    ),
    lua(
        "silence asked again, of an instance",
        "leave.lua",
        "if not (before and at and tonumber(at) >= before) then",
        "if true then",
        INSTANCE_COMES_BACK,
    ),
    memory(
        "silence asked again, of an instance",
        "registry",
        "            if not shows_life:\n",
        "            if True:\n",
        INSTANCE_COMES_BACK,
    ),
    lua("silence ahead", "overdue.lua", "call('ZADD', words, now, member)", "", AHEAD),
    memory("silence ahead", "registry", "                beats[member] = now_ms\n", "                pass\n", AHEAD),
    python("silence heard", "registry/watcher", "elif await self._takes_beats():", "elif True:", NO_WRITES),
    python(
        "silence heard, by the reaper",
        "registry/reaper",
        "now_ms = await self._backend.moment()",
        "now_ms = await self._backend.now_ms()",
        NO_WRITES,
    ),
    python(
        "silence known",
        "routing/index",
        "return min(now_ms, self.known_until_ms) if self.known_until_ms else now_ms",
        "return now_ms",
        ALONE + "test_silence_that_a_router_could_not_hear_makes_nobody_suspect",
    ),
    python(
        "silence known, at the start",
        "registry/grace",
        "if newest_ms is not None and now_ms - newest_ms > BEATEN_MS:",
        "if False:",
        ALONE + "test_a_router_that_starts_after_an_outage_finds_nobody_silent",
    ),
    python(
        "silence known, of newcomers",
        "registry/watcher",
        "            beats = await self._ask(0)  # before anybody is known without them: so one would count as silent\n",
        "            self.index.load(snapshot.agents, {}, (), {})\n            beats = await self._ask(0)\n",
        ALONE + "test_who_has_just_registered_counts_as_silent_at_no_moment",
    ),
)
