"""The APIs over HTTP."""
