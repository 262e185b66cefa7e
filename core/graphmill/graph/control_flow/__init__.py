"""Conditionals and loops: their construction, and the analysis of frames."""
