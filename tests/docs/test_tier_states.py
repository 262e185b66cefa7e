"""The page on tier states shows the tables of the code."""

from __future__ import annotations

import runpy
from pathlib import Path


def test_the_page_is_up_to_date() -> None:
    file = Path(__file__).parents[2] / "tools" / "make_tier_states.py"
    tool = runpy.run_path(str(file))
    assert tool["PAGE"].read_text("utf-8") == tool["page"]()
