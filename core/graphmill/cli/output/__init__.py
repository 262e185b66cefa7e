"""Tables, JSON, results of a model and progress."""
