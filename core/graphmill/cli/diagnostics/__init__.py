"""Checks behind `graphmill doctor` and `graphmill ops --coverage`."""
