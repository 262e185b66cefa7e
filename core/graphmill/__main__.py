"""Run the `graphmill` command line as `python -m graphmill`."""

from __future__ import annotations

from graphmill.cli.main import main

if __name__ == "__main__":
    main()
