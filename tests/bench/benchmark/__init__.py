"""Run the same cases in TensorFlow and in graphmill, in turns, and compare (see __main__.py)."""
