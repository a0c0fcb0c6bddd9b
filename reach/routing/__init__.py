"""Who gets a message: patterns, the index of who is there, filters, strategies, and the decision. Pure: no I/O, no clock, no chance."""
