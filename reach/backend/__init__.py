"""Where bytes are kept: one port, two backends (Redis, memory). The only package that imports redis."""
