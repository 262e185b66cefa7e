"""Run one step: feeds, fetches, callables and partial runs."""
