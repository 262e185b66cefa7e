"""MasterService: clients' sessions, their steps, callables and partial runs."""
