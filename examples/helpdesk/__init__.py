"""A help desk for the Python standard library: three kinds of agents that work on every question together."""
