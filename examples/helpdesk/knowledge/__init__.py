"""What the agents know: pure functions, no reach in them."""
