"""The state of one step: call frame, cancellation, event loop, statistics."""
