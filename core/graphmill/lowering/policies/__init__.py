"""Policies of a session's configuration: forbidden effects, determinism."""
