"""The files that an isolated process may open: libraries, the model, and what rules name."""

from __future__ import annotations

import os
import sysconfig
from pathlib import Path

import pytest

import graphmill
from graphmill.access.rules import AccessRules
from graphmill.errors import InvalidArgumentError, NotFoundError
from graphmill.isolation.visible_files import visible_files

NO_RULES = AccessRules()


def test_libraries_are_read_and_nothing_is_written(tmp_path: Path) -> None:
    access = visible_files(str(tmp_path), NO_RULES)
    assert sysconfig.get_path("purelib") in access.read
    assert os.path.realpath(graphmill.__path__[0]) in access.read
    assert access.write == ()
    home = str(Path.home())
    assert not any(path in ("/", "/etc", "/proc", "/tmp", home) for path in access.read)


@pytest.mark.parametrize("name", ["", "saved_model.pb", "saved_model.pbtxt"])
def test_saved_model_is_its_folder(tmp_path: Path, name: str) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / name).write_text("x") if name else None
    link = tmp_path / "link"
    link.symlink_to(folder)
    access = visible_files(str(link / name), NO_RULES)
    assert str(folder) in access.read
    assert str(folder) in access.list
    assert str(tmp_path) not in access.read


def test_graph_is_one_file(tmp_path: Path) -> None:
    path = tmp_path / "model.pb"
    path.write_text("x")
    access = visible_files(f"file://{path}", NO_RULES)
    assert str(path) in access.read
    assert str(tmp_path) not in (*access.read, *access.list)


def test_meta_graph_is_loaded_with_its_checkpoint(tmp_path: Path) -> None:
    for name in ("x.meta", "x.index", "x.data-00000-of-00001", "y.index"):
        (tmp_path / name).write_text("x")
    access = visible_files(str(tmp_path / "x.meta"), NO_RULES)
    own = {Path(path).name for path in access.read if path.startswith(str(tmp_path))}
    assert own == {"x.meta", "x.index", "x.data-00000-of-00001"}


def test_rules_add_their_paths(tmp_path: Path) -> None:
    rules = AccessRules.parse([f"fs.write:{tmp_path}", "fs.read"])
    access = visible_files(str(tmp_path), rules)
    assert access.write == (str(tmp_path),)
    assert "/" in access.read
    assert "/" not in access.list


@pytest.mark.parametrize("rule", ["net", "process", "python"])
def test_rules_that_isolation_never_allows_are_refused(tmp_path: Path, rule: str) -> None:
    with pytest.raises(InvalidArgumentError, match=f"the rule {rule} cannot be combined"):
        visible_files(str(tmp_path), AccessRules.parse([rule]))


def test_missing_paths_are_refused(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match="does not exist"):
        visible_files(str(tmp_path / "none"), NO_RULES)
    with pytest.raises(NotFoundError, match="create it before"):
        visible_files(str(tmp_path), AccessRules.parse([f"fs.write:{tmp_path}/new"]))


def test_packages_that_a_pth_file_adds_are_visible(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = tmp_path / "model.pb"
    model.touch()
    packages, scripts = str(tmp_path / "site-packages"), str(tmp_path / "scripts")
    monkeypatch.setattr("sys.path", [scripts, packages])
    seen = visible_files(str(model), AccessRules()).read
    assert packages in seen
    assert scripts not in seen
