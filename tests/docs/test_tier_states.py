"""The page of the tiers' states shows the tables of the code."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.docs.state_tables import diagram, states, transitions

from graphmill_plugins.jit.tiers import states as signature

if TYPE_CHECKING:
    from collections.abc import Mapping

PAGE = Path(__file__).parents[2] / "docs" / "explanation" / "tier-states.md"
SIGNATURE = signature.TRANSITIONS
FROM_EVERY_PROGRAM = (
    signature.Event.PROGRAM_RAISED,
    signature.Event.PLACE_LOST,
    signature.Event.REPLACED,
)
DRAWN = {
    (state, event): row
    for (state, event), row in SIGNATURE.items()
    if event not in FROM_EVERY_PROGRAM or state not in signature.HAS_PROGRAM
}
PARTS: Mapping[str, str] = {
    "signature diagram": diagram(DRAWN),
    "signature states": states(signature.State),
    "signature transitions": transitions(SIGNATURE),
}


@pytest.mark.parametrize("name", PARTS)
def test_the_page_shows_the_table_of_the_code(name: str) -> None:
    """To bring the page up to date, put what is expected between the two comments."""
    text = PAGE.read_text(encoding="utf-8")
    _, _, after = text.partition(f"<!-- {name} -->\n")
    shown, end, _ = after.partition("<!-- end -->")
    assert end, f"the page has no part {name!r}"
    assert shown.strip() == PARTS[name].strip()
