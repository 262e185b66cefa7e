"""The wire protocol: method paths, statuses, messages with tensors."""
