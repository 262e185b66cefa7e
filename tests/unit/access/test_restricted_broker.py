"""A broker with rules behaves like `graphmill.files`, below the allowed folders."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from graphmill.access.broker import UNRESTRICTED, Broker
from graphmill.access.restricted_broker import RestrictedBroker
from graphmill.access.rules import AccessRules
from graphmill.errors import (
    FailedPreconditionError,
    InvalidArgumentError,
    NotFoundError,
    PermissionDeniedError,
)
from graphmill.lowering.policies.effects_policy import EffectsPolicy

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def broker(*allow: str) -> RestrictedBroker:
    return RestrictedBroker(EffectsPolicy(rules=(AccessRules.parse(allow),)), "node", "Op")


@pytest.fixture(params=["with rules", "without"])
def both(request: pytest.FixtureRequest, tmp_path: Path) -> Broker:
    return broker(f"fs.write:{tmp_path}") if request.param == "with rules" else UNRESTRICTED


def test_files_are_written_read_moved_and_removed(both: Broker, tmp_path: Path) -> None:
    path = f"{tmp_path}/a/b"
    both.write(path, b"one", b"two")
    assert both.read_bytes(path) == b"onetwo"
    with both.open_stream(path) as stream:
        assert stream.read(3) == b"one"
    assert both.exists(path)
    assert both.is_dir(f"{tmp_path}/a")
    assert both.list_dir(f"{tmp_path}/a") == ["b"]
    both.rename(path, f"{tmp_path}/a/c")
    assert not both.exists(path)
    both.remove(f"{tmp_path}/a/c")
    both.remove_empty_dir(f"{tmp_path}/a")
    both.make_dirs(f"{tmp_path}/x/y")
    assert both.list_dir(str(tmp_path)) == ["x"]


def test_compressed_streams_and_logs_are_written(both: Broker, tmp_path: Path) -> None:
    with both.open_stream_writer(f"{tmp_path}/z", "GZIP") as writer:
        writer.write(b"packed")
    assert both.open_stream(f"{tmp_path}/z", "GZIP").read() == b"packed"
    for text in (b"one", b"two"):
        log = both.open_appender(f"{tmp_path}/logs/log")
        log.write(text)
        log.flush()
        log.close()
    assert both.read_bytes(f"{tmp_path}/logs/log") == b"onetwo"


def test_new_file_gets_a_suffix_where_there_is_one(both: Broker, tmp_path: Path) -> None:
    assert both.write_new(f"{tmp_path}/d/n", b"1") == f"{tmp_path}/d/n"
    assert both.write_new(f"{tmp_path}/d/n", b"2") == f"{tmp_path}/d/n-1"
    assert (tmp_path / "d" / "n-1").read_bytes() == b"2"


def test_abandoned_file_leaves_nothing(both: Broker, tmp_path: Path) -> None:
    writer = both.open_writer(f"{tmp_path}/x")
    writer.write(b"half")
    writer.abandon()
    assert list(tmp_path.iterdir()) == []


def test_replaced_file_keeps_its_mode(both: Broker, tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(b"old")
    path.chmod(0o640)
    both.write(str(path), b"new")
    assert path.stat().st_mode & 0o777 == 0o640


@pytest.mark.parametrize(
    "pattern",
    ["*", "a*", "*.txt", "*/c*", "d/*", "[ab].txt", "d/c.txt", "none", "*/", "d/", "?.t?t", ".*"],
)
def test_patterns_match_as_without_rules(pattern: str, tmp_path: Path) -> None:
    for name in ("a.txt", "b.txt", ".hidden", "other"):
        (tmp_path / name).touch()
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "c.txt").touch()
    found = broker(f"fs.write:{tmp_path}").matching(f"{tmp_path}/{pattern}")
    assert found == UNRESTRICTED.matching(f"{tmp_path}/{pattern}")


def test_relative_patterns_match(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.txt").touch()
    for pattern in ("*.txt", "./*.txt"):
        found = broker(f"fs.list:{tmp_path}").matching(pattern)
        assert found == UNRESTRICTED.matching(pattern) != []


def test_errors_are_those_of_files(tmp_path: Path) -> None:
    made = broker(f"fs.write:{tmp_path}")
    with pytest.raises(NotFoundError, match="none"):
        made.read_bytes(f"{tmp_path}/none")
    with pytest.raises(FailedPreconditionError, match="expected a regular file"):
        made.read_bytes(str(tmp_path))
    with pytest.raises(InvalidArgumentError, match="NUL"):
        made.read_bytes(f"{tmp_path}/a\0")
    with pytest.raises(InvalidArgumentError, match="too long"):
        made.read_bytes(f"{tmp_path}/{'x' * 5000}")
    with pytest.raises(NotFoundError):
        made.list_dir(f"{tmp_path}/none")
    with pytest.raises(InvalidArgumentError, match="compression"):
        made.open_stream_writer(f"{tmp_path}/new", "RAR")
    assert list(tmp_path.iterdir()) == []


def refused(method: str) -> Any:
    calls = {
        "rename": ("/outside/a", "/outside/b"),
        "write": ("/outside/a", b""),
        "write_new": ("/outside/a", b""),
    }
    return method, calls.get(method, ("/outside/*" if method == "matching" else "/outside/a",))


@pytest.mark.parametrize(
    ("method", "arguments"),
    [
        refused(name)
        for name in dir(Broker)
        if not name.startswith("_") and name not in ("is_restricted", "require")
    ],
)
def test_each_method_refuses_a_path_outside(method: str, arguments: Any, tmp_path: Path) -> None:
    with pytest.raises(PermissionDeniedError) as caught:
        getattr(broker(f"fs.write:{tmp_path}"), method)(*arguments)
    assert (caught.value.node, caught.value.op_type) == ("node", "Op")
    assert "/outside" in caught.value.message
    assert "allow=['fs." in caught.value.message


def test_rename_needs_both_ends(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a").touch()
    (tmp_path / "b").touch()
    made = broker(f"fs.write:{tmp_path}/in")
    for ends in (("in/a", "a"), ("b", "in/b")):
        with pytest.raises(PermissionDeniedError):
            made.rename(*(f"{tmp_path}/{end}" for end in ends))


def test_url_needs_its_own_rule() -> None:
    pytest.importorskip("fsspec")
    UNRESTRICTED.write("memory://in/a", b"text")
    made = broker("fs.read:memory://in")
    assert made.read_bytes("memory://in/a") == b"text"
    for path in ("memory://other/a", "memory://in/../other/a", "memory://in/a::file:///etc/hosts"):
        with pytest.raises(PermissionDeniedError):
            made.read_bytes(path)
    with pytest.raises(PermissionDeniedError):
        made.write("memory://in/a", b"other")


def test_effect_without_a_path_needs_a_whole_rule() -> None:
    broker("python").require("python")
    with pytest.raises(PermissionDeniedError, match="may not call Python functions"):
        broker("fs.read").require("python")


def test_every_set_of_rules_has_to_allow(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"x")
    sets = tuple(AccessRules.parse([rule]) for rule in (f"fs.read:{tmp_path}", "fs.read"))
    assert RestrictedBroker(EffectsPolicy(rules=sets), "n", "Op").read_bytes(f"{tmp_path}/a")
    sets = (*sets, AccessRules())
    with pytest.raises(PermissionDeniedError, match="allow nothing"):
        RestrictedBroker(EffectsPolicy(rules=sets), "n", "Op").read_bytes(f"{tmp_path}/a")


def test_temporary_rules_end(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"x")
    policy = EffectsPolicy(rules=(AccessRules(),))
    made = RestrictedBroker(policy, "n", "Op")
    with policy.allowing(AccessRules.parse([f"fs.read:{tmp_path}"])):
        assert made.read_bytes(f"{tmp_path}/a") == b"x"
    with pytest.raises(PermissionDeniedError):
        made.read_bytes(f"{tmp_path}/a")


def test_no_descriptor_is_leaked(
    tmp_path: Path, descriptors_below: Callable[[Path], list[str]]
) -> None:
    made = broker(f"fs.write:{tmp_path}")
    made.write(f"{tmp_path}/a/b", b"x")
    made.read_bytes(f"{tmp_path}/a/b")
    made.open_writer(f"{tmp_path}/a/c").abandon()
    made.open_appender(f"{tmp_path}/a/d").close()
    with pytest.raises(FailedPreconditionError):
        made.write(f"{tmp_path}/a", b"x")
    assert not descriptors_below(tmp_path)
