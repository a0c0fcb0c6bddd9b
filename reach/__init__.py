"""reach: a message broker layer for systems of AI agents, on Redis Streams."""
