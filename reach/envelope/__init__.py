"""Every byte that enters Redis is defined here: pure, no clock, no sockets, no randomness."""
