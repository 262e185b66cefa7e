"""Run the same cases alternately in TensorFlow and graphmill, and compare (see __main__.py)."""
