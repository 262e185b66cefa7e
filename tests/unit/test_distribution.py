"""The installed distribution of graphmill decides which package messages tell users to install."""

from __future__ import annotations

from importlib import metadata
from typing import TYPE_CHECKING

import pytest

from graphmill import distribution

if TYPE_CHECKING:
    from collections.abc import Callable

    Install = Callable[..., None]


@pytest.fixture
def install(monkeypatch: pytest.MonkeyPatch) -> Install:
    """Return a function that makes distributions look installed, and all others not."""

    def make(**versions: str) -> None:
        def version(name: str) -> str:
            try:
                return versions[name.replace("-", "_")]
            except KeyError:
                raise metadata.PackageNotFoundError(name) from None

        monkeypatch.setattr(metadata, "version", version)

    return make


@pytest.mark.parametrize(
    ("versions", "command"),
    [
        ({"graphmill": "1.0"}, "pip install 'graphmill[grpc]'"),
        ({"graphmill_lite": "1.0"}, "pip install 'graphmill-lite[grpc]'"),
        ({"graphmill": "1.0", "graphmill_lite": "1.0"}, "pip install 'graphmill[grpc]'"),
        ({}, "pip install 'graphmill[grpc]'"),
    ],
)
def test_install_command_names_the_installed_distribution(
    install: Install, versions: dict[str, str], command: str
) -> None:
    install(**versions)
    assert distribution.install_command("grpc") == command


def test_both_distributions_are_found(install: Install) -> None:
    install(graphmill="1.0", graphmill_lite="1.1")
    assert distribution.installed() == {"graphmill": "1.0", "graphmill-lite": "1.1"}
