"""Conditionals and loops: building them, and the frames that they make."""
