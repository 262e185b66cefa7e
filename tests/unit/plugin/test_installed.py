"""Distributions with entry points of a group are found without importlib.metadata."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from importlib import metadata
from typing import TYPE_CHECKING

import pytest

from graphmill.plugin.installed import EntryPoint, installed_with, parse_entry_points

if TYPE_CHECKING:
    from pathlib import Path

GROUP = "some.group"


def write_dist(folder: Path, name: str = "some_dist-1.0.dist-info", text: str = "") -> Path:
    info = folder / name
    info.mkdir(parents=True)
    (info / "entry_points.txt").write_text(text or f"[{GROUP}]\na = json\n")
    header = "PKG-INFO" if name.endswith(".egg-info") else "METADATA"
    (info / header).write_text("Name: some-dist\nVersion: 1.0\n")
    return folder


def test_only_distributions_that_name_the_group_are_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_dist(tmp_path)
    write_dist(tmp_path, "other-2.dist-info", "[console_scripts]\nx = y\n")
    monkeypatch.setattr(sys, "path", [str(tmp_path), str(tmp_path / "missing")])
    (found,) = installed_with(GROUP)
    assert found.headers.startswith("Name: some-dist")
    assert not found.is_shadowed


@pytest.mark.parametrize("name", ["Some_Dist-0.9.egg-info", "some_dist.egg-info"])
def test_later_path_entries_are_shadowed(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = write_dist(tmp_path / "1"), write_dist(tmp_path / "2", name)
    monkeypatch.setattr(sys, "path", [str(first), str(second)])
    assert [found.is_shadowed for found in installed_with(GROUP)] == [False, True]


def test_a_zip_file_on_the_path_is_looked_into(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = tmp_path / "packed.zip"
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("packed-1.dist-info/entry_points.txt", f"[{GROUP}]\nz = json\n")
        file.writestr("packed-1.dist-info/METADATA", "Name: packed\nVersion: 1\n")
    monkeypatch.setattr(sys, "path", [*sys.path, str(archive)])
    (found,) = installed_with(GROUP)
    assert found.headers.startswith("Name: packed")


def test_custom_distribution_finder_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    info = write_dist(tmp_path) / "some_dist-1.0.dist-info"

    class Finder:
        def find_spec(self, *_: object) -> None:
            return None

        def find_distributions(self, context: object = None) -> list[metadata.Distribution]:
            return [metadata.PathDistribution(info)]

    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path, Finder()])
    (found,) = installed_with(GROUP)
    assert "some-dist" in found.headers


def test_ours_and_importlib_find_the_same_here() -> None:
    text = [
        found.entry_points for found in installed_with("console_scripts") if not found.is_shadowed
    ]
    ours = {(p.name, p.value) for one in text for p in parse_entry_points(one, "console_scripts")}
    theirs = {(p.name, p.value) for p in metadata.entry_points(group="console_scripts")}
    assert ours == theirs


def test_comments_and_other_groups_are_left_out() -> None:
    text = f"# a\n[other]\nx = y\n\n[{GROUP}]\n a = m:f [extra]\nb=n\n[third]\nnonsense\n"
    assert parse_entry_points(text, GROUP) == [EntryPoint("a", "m:f [extra]"), EntryPoint("b", "n")]


def test_a_line_without_equals_sign_is_refused() -> None:
    with pytest.raises(ValueError, match="no '='"):
        parse_entry_points(f"[{GROUP}]\nnonsense\n", GROUP)


def test_a_reference_is_a_module_or_something_in_it() -> None:
    import json

    assert EntryPoint("a", "json").load() is json
    assert EntryPoint("a", "json : JSONDecoder.decode [x]").load() is json.JSONDecoder.decode
    with pytest.raises(ValueError, match="is not a reference"):
        EntryPoint("a", "no way!").load()


def test_assembling_a_host_imports_no_metadata_machinery() -> None:
    code = "import sys, graphmill; graphmill.default_host(); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "graphmill.plugin.host" in done.stdout.split()
    assert "importlib.metadata" not in done.stdout.split()
