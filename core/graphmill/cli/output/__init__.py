"""Print tables, JSON, a model's results and progress."""
