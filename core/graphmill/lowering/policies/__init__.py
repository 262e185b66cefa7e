"""What a session's configuration forbids: effects, nondeterminism."""
