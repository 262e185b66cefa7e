"""`graphmill.spi`: what plugins may import is there, light, and typed as it is given."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from graphmill import spi


@pytest.mark.parametrize("name", spi.__all__)
def test_every_name_is_there(name: str) -> None:
    assert getattr(spi, name) is not None


def test_types_and_values_come_from_the_same_place() -> None:
    """What type checkers see (imports under TYPE_CHECKING) is what is imported."""
    tree = ast.parse(Path(spi.__file__).read_text("utf-8"))
    (block,) = (s for s in tree.body if isinstance(s, ast.If))
    seen = {
        alias.asname or alias.name: found.module
        for found in block.body
        if isinstance(found, ast.ImportFrom)
        for alias in found.names
    }
    given = {name: module for module, names in spi._HOMES.items() for name in names}
    assert seen == given | dict.fromkeys(spi._MODULES, "graphmill")
    assert sorted([*seen, "VERSION"]) == sorted(spi.__all__)


def test_a_name_that_is_not_there_says_so_with_the_version() -> None:
    with pytest.raises(
        AttributeError, match=r"graphmill\.spi 1\.\d+ has no 'Devise'; did you mean"
    ):
        spi.Devise  # noqa: B018


def test_a_plugin_module_pays_for_the_marker_only() -> None:
    code = (
        "import sys; from graphmill.spi import hookimpl\n"
        "assert not {'numpy', 'graphmill.runtime.device', 'graphmill.ops'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
