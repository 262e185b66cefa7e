"""The protocol as bytes: method paths, statuses, messages with tensors."""
