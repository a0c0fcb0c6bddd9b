"""The agents, one program each: the part to read first."""
