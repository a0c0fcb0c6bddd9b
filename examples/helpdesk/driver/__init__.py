"""The demo around the agents: starts everything, asks, kills, counts and tells."""
