"""Rules are parsed, compared with paths, and refused if they are wrong."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from graphmill.access.rules import AccessRules, Rule
from graphmill.errors import InvalidArgumentError


def test_rule_has_an_absolute_path_without_links(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    expected = Rule("fs.read", str(tmp_path / "real"))
    for path in ("link", "./real/", "real/../link", f"{tmp_path}//link", "~/link"):
        assert Rule.parse(f"fs.read:{path}") == expected
    assert Rule.parse(f"fs.read:file://{tmp_path}/link") == expected


def test_url_rule_is_unchanged() -> None:
    assert str(Rule.parse("fs.write:gs://bucket/runs/")) == "fs.write:gs://bucket/runs"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("fs.raed:/x", r"did you mean 'fs\.read'"),
        ("network", "did you mean 'net'"),
        ("", "unknown effect ''"),
        ("fs.read:", "empty path"),
        ("net:example.com", "only rules for files take a path"),
        ("state", "always allowed"),
        ("clock", "always allowed"),
        ("fs.read:gs://bucket/../other", r"'::' or '\.\.'"),
        ("fs.read:gs://b/x::file:///etc", r"'::' or '\.\.'"),
        ("fs.read:/a\0b", "NUL"),
        (Path("/data"), "a rule is a string"),
    ],
)
def test_wrong_rule_is_refused(text: Any, reason: str) -> None:
    with pytest.raises(InvalidArgumentError, match=reason):
        Rule.parse(text)


def test_one_text_is_not_a_list_of_rules() -> None:
    with pytest.raises(InvalidArgumentError, match="expected a list of rules"):
        AccessRules.parse("fs.read")


@pytest.mark.parametrize(
    ("rule", "effect", "path", "is_covered"),
    [
        ("fs.read:/data", "fs.read", "/data", True),
        ("fs.read:/data", "fs.read", "/data/a/b", True),
        ("fs.read:/data", "fs.read", "/database", False),
        ("fs.read:/data", "fs.read", "/", False),
        ("fs.read:/data", "fs.list", "/data", False),
        ("fs.read:/data", "fs.write", "/data/a", False),
        ("fs.read:/", "fs.read", "/data", True),
        ("fs.list:/data", "fs.list", "/data/a", True),
        ("fs.list:/data", "fs.read", "/data/a", False),
        ("fs.write:/data", "fs.read", "/data/a", True),
        ("fs.write:/data", "fs.list", "/data", True),
        ("fs.read", "fs.read", "/anything", True),
        ("fs.read:gs://bucket/a", "fs.read", "gs://bucket/a/b", True),
        ("fs.read:gs://bucket/a", "fs.read", "gs://bucket/ab", False),
        ("fs.read:gs://bucket/a", "fs.read", "gs://other/a", False),
    ],
)
def test_rule_covers_everything_below_its_path(
    rule: str, effect: str, path: str, is_covered: bool
) -> None:
    assert AccessRules.parse([rule]).covers(effect, path) is is_covered


def test_effect_is_allowed_as_a_whole_or_for_some_paths() -> None:
    rules = AccessRules.parse(["net", "fs.read:/data", "net"])
    assert rules.texts() == ["net", "fs.read:/data"]
    assert rules.allows("net")
    assert rules.allows_some("fs.read")
    assert not rules.allows("fs.read")
    assert not rules.allows_some("python")
    assert str(AccessRules()) == "nothing"
