"""Plugins are found in order, with few imports and little parsing."""

from __future__ import annotations

import sys
from importlib import metadata
from typing import TYPE_CHECKING

import pytest

from graphmill.plugin import discovery
from graphmill.plugin.discovery import Candidate, is_disabled

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    UseDists = Callable[..., None]


def write_dist(
    folder: Path,
    name: str,
    version: str = "1.0",
    entry_points: str = "",
    metadata: str | None = None,
) -> Path:
    info = folder / f"{name.replace('-', '_')}-{version}.dist-info"
    info.mkdir(parents=True)
    head = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
    (info / "METADATA").write_text(head if metadata is None else metadata)
    (info / "entry_points.txt").write_text(f"[graphmill.plugins]\n{entry_points}")
    return folder


def found(*names: str) -> list[Candidate]:
    return [c for c in discovery.entry_point_plugins() if c.distribution in names]


def test_plugins_are_ordered_by_distribution_and_name(tmp_path: Path, use_dists: UseDists) -> None:
    for index, dist in enumerate(["zeta-x", "Alpha_X", "mid.x"]):
        points = f"b = {dist[:3]}_b\na = {dist[:3]}_a\n"
        use_dists(write_dist(tmp_path / str(index), dist, entry_points=points))
    candidates = found("zeta-x", "Alpha_X", "mid.x")
    assert [(c.distribution, c.name) for c in candidates] == [
        ("Alpha_X", "a"),
        ("Alpha_X", "b"),
        ("mid.x", "a"),
        ("mid.x", "b"),
        ("zeta-x", "a"),
        ("zeta-x", "b"),
    ]


def test_plugins_of_graphmill_lite_are_built_in(tmp_path: Path, use_dists: UseDists) -> None:
    use_dists(write_dist(tmp_path, "graphmill-lite", "0.9", "cpu = graphmill_plugins.cpu\n"))
    (candidate,) = found("graphmill", "graphmill-lite")
    assert candidate.distribution == "graphmill"
    assert candidate.version == "0.9"


def test_two_distributions_of_graphmill_supply_each_plugin_once(
    tmp_path: Path, use_dists: UseDists
) -> None:
    for name in ("graphmill", "graphmill-lite"):
        use_dists(write_dist(tmp_path / name, name, entry_points="cpu = graphmill_plugins.cpu\n"))
    assert [c.name for c in found("graphmill", "graphmill-lite")] == ["cpu"]


def test_candidate_has_version_and_requirements_without_import(
    use_dists: UseDists,
) -> None:
    use_dists("version_mismatch")
    (candidate,) = found("graphmill-version-mismatch")
    assert candidate.version == "4.0"
    assert candidate.requires[:2] == ("numpy>=1", "graphmill>=0.0.1,<0.0.2")
    assert candidate.module == "fake_version_mismatch"
    assert "fake_version_mismatch" not in sys.modules


def test_the_distribution_that_python_would_use_counts(tmp_path: Path, use_dists: UseDists) -> None:
    use_dists(write_dist(tmp_path / "old", "twice-x", "1.0", "old = old_x\n"))
    use_dists(write_dist(tmp_path / "new", "twice-x", "2.0", "new = new_x\n"))
    assert [(c.name, c.version) for c in found("twice-x")] == [("new", "2.0")]


def test_plugin_shadowed_by_another_distribution_is_not_found(
    tmp_path: Path, use_dists: UseDists
) -> None:
    use_dists(write_dist(tmp_path / "old", "twice-y", "1.0", "old = old_y\n"))
    newer = write_dist(tmp_path / "new", "twice-y", "2.0")
    (newer / "twice_y-2.0.dist-info" / "entry_points.txt").unlink()
    use_dists(newer)
    assert found("twice-y") == []


def test_a_damaged_entry_points_file_is_one_candidate_that_fails(
    tmp_path: Path, use_dists: UseDists
) -> None:
    use_dists(write_dist(tmp_path, "damaged-x", entry_points="no equals sign here\n"))
    (candidate,) = found("damaged-x")
    assert candidate.name == "damaged-x"
    with pytest.raises(Exception, match="cannot be parsed"):
        candidate.load()


def test_an_undecodable_entry_points_file_is_skipped(tmp_path: Path, use_dists: UseDists) -> None:
    folder = write_dist(tmp_path, "binary-x")
    (folder / "binary_x-1.0.dist-info" / "entry_points.txt").write_bytes(b"\xff\xfe graphmill")
    use_dists(folder)
    assert found("binary-x") == []


def test_a_distribution_without_metadata_is_still_found(
    tmp_path: Path, use_dists: UseDists
) -> None:
    use_dists(write_dist(tmp_path, "bare-x", entry_points="bare = bare_x\n", metadata=""))
    assert [c.name for c in found("")] == ["bare"]


def test_the_description_of_a_distribution_is_not_taken_for_headers(use_dists: UseDists) -> None:
    use_dists("twin_b")
    assert [c.version for c in found("graphmill-twin-b")] == ["2.0"]


def test_environment_plugins_keep_their_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRAPHMILL_LOAD_PLUGINS", " zz_mod , aa_mod,,zz_mod")
    assert [(c.name, c.source) for c in discovery.environment_plugins()] == [
        ("zz_mod", "environment"),
        ("aa_mod", "environment"),
    ]


@pytest.mark.parametrize(
    ("listed", "expected"),
    [
        ({"npu"}, True),
        ({"graphmill-npu"}, True),
        ({"Graphmill_NPU"}, True),
        ({"graphmill-npu:npu"}, True),
        ({"graphmill-npu:other"}, False),
        ({"NPU"}, False),
        ({"other"}, False),
        (set(), False),
    ],
)
def test_plugin_is_disabled_by_name_or_distribution(listed: set[str], expected: bool) -> None:
    candidate = Candidate("npu", "graphmill_npu", "entry point", object, "graphmill-npu", "1")
    assert is_disabled(candidate, listed) is expected


def test_a_plugin_without_distribution_is_disabled_by_its_name() -> None:
    candidate = Candidate("my_mod", "my_mod", "environment", object)
    assert is_disabled(candidate, {"my_mod"})
    assert not is_disabled(candidate, {""})


def test_no_metadata_file_is_parsed_as_an_email(
    use_dists: UseDists, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Metadata files are not parsed as emails, which would take 20 times as long."""

    def parse(self: object) -> None:
        raise AssertionError("a metadata file is parsed")

    monkeypatch.setattr(metadata.Distribution, "metadata", property(parse))
    use_dists("good")
    assert [c.name for c in found("graphmill-downstream")] == ["downstream"]
