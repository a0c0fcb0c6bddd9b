"""What happens between sent and settled."""
