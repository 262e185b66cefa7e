"""The master service: client sessions, steps, callables and partial runs."""
