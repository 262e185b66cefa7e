"""Monitoring of a server: counters, metrics, status and log."""
