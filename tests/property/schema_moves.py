"""What random walks do to the schemas of an env."""

from typing import Any

from hypothesis import strategies as st

#: family, what was read before, record, name, schema
SCHEMA_ARGUMENTS: "tuple[st.SearchStrategy[Any], ...]" = (
    st.sampled_from(("a", "b")),
    st.sampled_from(("right", "right", "right", "nothing", "other")),
    st.sampled_from((b"{}", b'{"compatibility":"none"}', b"")),
    st.sampled_from(("", "a.v1", "a.v2")),
    st.sampled_from((b"{}", b"")),
)
