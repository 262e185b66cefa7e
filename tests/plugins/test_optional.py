"""A missing package is an error that says how to install it."""

from __future__ import annotations

import importlib
import sys

import pytest

from graphmill.errors import UnimplementedError
from graphmill_plugins._lazy_jax import LazyModule
from graphmill_plugins._optional import import_optional


@pytest.mark.parametrize(("module", "extra"), [("jax", "jax"), ("scipy.special", "scipy")])
def test_missing_package_names_its_extra(
    monkeypatch: pytest.MonkeyPatch, module: str, extra: str
) -> None:
    package = module.partition(".")[0]

    def missing(_: str) -> None:
        raise ModuleNotFoundError(f"No module named {package!r}", name=package)

    monkeypatch.setattr(importlib, "import_module", missing)
    with pytest.raises(UnimplementedError, match=rf"pip install 'graphmill\S*\[{extra}\]'"):
        import_optional(module)


def test_installed_module_is_returned() -> None:
    assert import_optional("json") is sys.modules["json"]


def test_missing_module_of_an_installed_package_is_an_import_error() -> None:
    with pytest.raises(ModuleNotFoundError):
        import_optional("json.no_such_module")


def test_a_lazy_module_reports_that_jax_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(_: str) -> None:
        raise ModuleNotFoundError("No module named 'jax'", name="jax")

    monkeypatch.setattr(importlib, "import_module", missing)
    with pytest.raises(UnimplementedError, match="JAX is needed here, and is not installed"):
        LazyModule("jax").jit  # noqa: B018 - the access raises
