"""Plugins declare interface versions; a mismatch is reported in one line."""

from __future__ import annotations

import types
import warnings

import pytest

from graphmill.plugin.manager import PluginManager, PluginWarning
from graphmill.plugin.spi_version import VERSION, spi_problem
from graphmill.registry import PluginError


def declaring(value: object) -> types.ModuleType:
    module = types.ModuleType("declaring")
    module.GRAPHMILL_SPI = value  # type: ignore[attr-defined]
    return module


@pytest.mark.parametrize("declared", [">=1.0,<2", "==1.*", f">={VERSION[0]}.{VERSION[1]}", "~=1.0"])
def test_range_with_this_version_is_accepted(declared: str) -> None:
    assert spi_problem(declaring(declared)) == ""


def test_a_plugin_that_declares_nothing_is_used() -> None:
    assert spi_problem(types.ModuleType("silent")) == ""


@pytest.mark.parametrize("declared", [">=2", "<1.0", "==0.9"])
def test_version_mismatch_names_both_versions(declared: str) -> None:
    assert spi_problem(declaring(declared)).startswith(f"it needs graphmill.spi {declared}, this ")


def test_a_range_is_a_text() -> None:
    assert "expected a string such as" in spi_problem(declaring(1))


def test_declared_version_is_reported_before_import_error(use_dists) -> None:
    use_dists("spi_too_new")
    manager = PluginManager()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        manager.load_installed()
    reasons = {r.name: r.error for r in manager.records if r.status == "failed"}
    expected = f"it needs graphmill.spi >=7.0,<8, this is {VERSION[0]}.{VERSION[1]}"
    assert reasons == {"imports_well": expected, "imports_badly": expected}
    assert sum(w.category is PluginWarning for w in caught) == 2


def test_explicit_plugin_with_wrong_version_is_an_error() -> None:
    with pytest.raises(PluginError, match=r"needs graphmill\.spi >=9"):
        PluginManager().load_objects([declaring(">=9")])
