"""Mutants of what guards the registry: from where, with which credential, and what other instances have agreed to."""

from tests.mutants.lua_routers import lua
from tests.mutants.memory_routers import memory
from tests.mutants.python import python

_PLACES = "unit/registry/test_places.py::test_who_comes_from_outside_is_refused_whatever_it_asks"
_AGREEING = "unit/registry/test_agreeing.py"
_BEAT = "membership::test_a_change_that_a_beat_asks_for_goes_on_as_an_entry_of_control"
_CHANGES = "unit/sdk/test_capability_changes.py"

MUTANTS = (
    python(
        "vouched", "registry/admission", "        if not found:\n", "        if not found and text == '':\n", _PLACES
    ),
    python(
        "vouched, from inside",
        "registry/admission",
        "if not any(networks.admits(address) for address in found):",
        "if not found:",
        _PLACES,
    ),
    python(
        "vouched, for the bytes alone",
        "backend/vouching",
        "hashlib.sha256(entry).hexdigest()",
        "hashlib.sha256(b'').hexdigest()",
        "integration/test_networks.py::test_nobody_can_lend_himself_an_address",
    ),
    python(
        "vouched, whatever is asked",
        "registry/registrar",
        'if entry.op != "cancel":',
        'if entry.op == "register":',
        _PLACES,
    ),
    python(
        "credential",
        "registry/declaring",
        "            await self._admission.check(wanted, self._backend.now_ms)\n",
        "",
        "bugs/test_sec_registry.py::test_B134_nobody_speaks_for_an_agent_without_its_credential",
    ),
    python(
        "credential, at a farewell",
        "registry/registrar",
        "        await self._admission.check_agent(asked.agent_id, asked.token, self._backend.now_ms)\n",
        "",
        "unit/registry/test_admission.py::test_nobody_takes_leave_for_another",
    ),
    python(
        "agreed",
        "registry/agreeing",
        "if wanted.declares is None or one.declares != wanted.declares",
        "if one.declares != wanted.declares",
        f"{_AGREEING}::test_the_judgement",
    ),
    python(
        "agreed, by all",
        "registry/agreeing",
        "if not apart or",
        "if len(apart) < len(others) or not apart or",
        f"{_AGREEING}::test_the_judgement",
    ),
    python(
        "agreed, by those who stay",
        "registry/agreeing",
        'if beat.state != "draining":',
        'if beat.state != "":',
        f"{_AGREEING}::test_who_is_silent_or_drains_is_bound_by_nothing",
    ),
    python(
        "agreed, first the old",
        "sdk/membership",
        "OTHERS_FIRST_MS = 3_000",
        "OTHERS_FIRST_MS = 0",
        f"{_CHANGES}::test_a_flush_while_a_younger_version_waits_for_the_old_one_harms_nobody",
    ),
    python(
        "agreed, and not forgotten",
        "sdk/membership",
        "if await self._backend.registered(wanted.agent_id) is None:",
        "if wanted is None:",
        f"{_CHANGES}::test_a_flush_while_replicas_wait_for_one_another_harms_nobody",
    ),
    lua("asked by a beat", "beat.lua", "if known and asked then", "if false then", _BEAT),
    memory("asked by a beat", "registry", "if known and asked:", "if not known:", _BEAT),
    python(
        "written by hand",
        "registry/standing",
        "if change.version <= self._version:",
        "if False:",
        "unit/registry/test_written.py::test_a_told_change_that_was_read_already_undoes_nothing",
    ),
    python(
        "written by hand, and told meanwhile",
        "registry/watcher",
        "if written.version < self._version:",
        "if False:",
        "unit/registry/test_written.py::test_an_answer_that_is_older_than_what_was_told_since_is_left_aside",
    ),
    python(
        "nothing in a rule",
        "routing/access",
        "self.set(name, data or EMPTY)",
        "self.set(name, data)",
        "unit/registry/test_written.py::test_what_stands_there_with_nothing_in_it_opens_nothing",
    ),
)
#: None of them is a guard of a model.
GUARDS = frozenset(mutant.guard for mutant in MUTANTS)
