"""Let `python -m graphmill` be the `graphmill` command."""

from __future__ import annotations

from graphmill.cli.main import main

if __name__ == "__main__":
    main()
