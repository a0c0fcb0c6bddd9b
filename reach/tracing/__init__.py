"""What happened to a message, hop by hop: records on the hot path, spans away from it."""
