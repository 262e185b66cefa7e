"""Version requirements are checked."""

from __future__ import annotations

import pytest

from graphmill.plugin.version_check import normalized, unmet_requirement


@pytest.mark.parametrize(
    ("clauses", "version"),
    [
        ("", "0.1.0"),
        (">=0.1", "0.1"),
        (">=0.1", "0.1.0"),
        (">=0.1,<2", "1.99.3"),
        ("==0.1.*", "0.1.7"),
        ("==0.1", "0.1.0"),
        ("!=0.2", "0.1"),
        ("!=0.2.*", "0.1"),
        ("~=0.1", "0.9"),
        ("~=0.1.2", "0.1.5"),
        (">0.1", "0.1.1"),
        ("<=0.1", "0.1.0"),
        ("< 0.2, >= 0.1", "0.1.5"),
        (">=10", "10.0"),
        (">=0.1", "0.2.0.dev3"),
        ("===weird+local", "0.1"),  # what we do not read is the installer's to judge
        (">=1!2.0", "0.1"),
    ],
)
def test_versions_in_the_range_are_allowed(clauses: str, version: str) -> None:
    assert unmet_requirement([f"graphmill{clauses}"], "graphmill", version) == ""


@pytest.mark.parametrize(
    ("clauses", "version"),
    [
        (">=0.2", "0.1.9"),
        ("<0.2", "0.2.0"),
        ("<=0.2", "0.2.1"),
        (">0.2", "0.2.0"),
        ("==0.2", "0.2.1"),
        ("==0.1.*", "0.2"),
        ("!=0.2", "0.2.0"),
        ("!=0.2.*", "0.2.4"),
        ("~=0.1.2", "0.2.0"),
        ("~=0.1.2", "0.1.1"),
        ("~=0.1", "1.0"),
        (">=0.1,<0.3,!=0.2.1", "0.2.1"),
        (">=9", "8.0.0rc1"),
    ],
)
def test_versions_outside_the_range_are_refused(clauses: str, version: str) -> None:
    assert unmet_requirement([f"graphmill{clauses}"], "graphmill", version) == clauses


@pytest.mark.parametrize(
    "requirement",
    [
        "numpy>=99",
        "graphmill-grpc>=99",
        'graphmill>=99; extra == "cluster"',
        "graphmill @ https://example.org/graphmill-99.whl",
        "&%$ not a requirement",
    ],
)
def test_other_requirements_do_not_count(requirement: str) -> None:
    assert unmet_requirement([requirement], "graphmill", "0.1.0") == ""


@pytest.mark.parametrize(
    "requirement", ["graphmill (>=0.2)", "Graphmill[grpc]>=0.2", "graphmill [grpc, ray] >=0.2"]
)
def test_requirements_are_read_in_any_spelling(requirement: str) -> None:
    assert unmet_requirement([requirement], "graphmill", "0.1.0") == ">=0.2"


def test_an_unknown_version_meets_everything() -> None:
    assert unmet_requirement(["graphmill>=99"], "graphmill", "") == ""


def test_names_are_compared_as_installers_do() -> None:
    assert normalized("Graph_Mill.Extra--x") == "graph-mill-extra-x"
