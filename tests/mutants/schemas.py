"""Mutants of schemas and types: compared and set, bounded."""

from tests.mutants.lua_routers import lua
from tests.mutants.memory_routers import memory

_SET = "schemas::test_who_read_another_record_writes_nothing"
_FULL = "schemas::test_no_more_than_max_schemas_are_stored_and_known_ones_may_change"
_SWAP = "registry::test_a_setting_is_written_only_over_what_was_read"
_TYPES = "schemas::test_registrations_leave_no_more_than_so_many_types"

#: Of steps that only the registry makes, which no model explores.
GUARDS = frozenset({"family", "setting", "max_schemas", "max_types"})

MUTANTS = (
    lua(
        "family",
        "write_schema.lua",
        "if call('HGET', families, family) ~= (ARGV[2] == '1' and ARGV[3]) then",
        "if false then",
        _SET,
    ),
    lua(
        "setting",
        "set_meta.lua",
        "if known ~= '' and call('HGET', key, ARGV[2]) ~= (known == '1' and ARGV[6]) then return 0 end",
        "",
        _SWAP,
    ),
    lua("max_schemas", "write_schema.lua", "if call('HLEN', schemas) >= most then", "if most < 0 then", _FULL),
    lua(
        "max_types",
        "register.lua",
        "if call('HLEN', own('types', 'hash')) < 10000 then",
        "if own('types', 'hash') then",
        _TYPES,
    ),
    memory(
        "family",
        "schemas",
        "if families.get(family) != expected:",
        "if families.get(family) is expected and not record:",
        _SET,
    ),
    memory(
        "setting",
        "registry",
        "if not fits(self._peek_hash(key).get(name)):",
        "if name is key:",
        _SWAP,
    ),
    memory("max_schemas", "schemas", "if schema and name not in schemas:", "if schema and name is schemas:", _FULL),
    memory("max_types", "registry", "if len(known) < MAX_TYPES:", "if len(known) >= 0:", _TYPES),
)
