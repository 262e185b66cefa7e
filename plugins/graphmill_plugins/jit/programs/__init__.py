"""Programs: traced clusters compiled by XLA, cached on disk, and called."""
