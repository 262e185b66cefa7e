"""What one step has of its own: call frame, cancellation, event loop, statistics."""
