"""Parts that every server of graphmill shares: logs, metrics, signals, addresses, tensors."""
