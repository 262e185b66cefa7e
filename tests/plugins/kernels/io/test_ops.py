"""Kernels of files and checkpoints in a session raise TensorFlow's error codes."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import graphmill
from graphmill import Session, dtypes, errors, proto
from graphmill.saved import checkpoint
from graphmill.saved.v1_checkpoint import V1Reader

if TYPE_CHECKING:
    from collections.abc import Callable

pytest.importorskip("google_crc32c")

STORED = Path(__file__).parents[3] / "data" / "checkpoints"
A = np.arange(6, dtype=np.float32).reshape(2, 3)
B = np.array([1, 2, 3], np.int64)


def strings(*values: str) -> Any:
    out = np.empty(len(values), object)
    out[:] = [value.encode() for value in values]
    return out


@pytest.fixture
def run(graphmill_host: Any) -> Callable[..., Any]:
    """Return a function that runs one op: inputs by position (a list is a list input)."""

    def run_op(op: str, *inputs: Any, **attrs: Any) -> Any:
        op_def = graphmill_host.ops.get(op)
        graph = proto.GraphDef()
        node = graph.node.add(name="op", op=op)
        feeds = {}
        flat = [
            part for value in inputs for part in (value if isinstance(value, list) else [value])
        ]
        for number, value in enumerate(flat):
            array = np.array(value.encode(), object) if isinstance(value, str) else value
            kind = dtypes.as_dtype(np.asarray(array).dtype)
            holder = graph.node.add(name=f"in{number}", op="Placeholder")
            holder.attr["dtype"].type = kind.enum
            node.input.append(holder.name)
            feeds[f"in{number}:0"] = array
        for name, value in attrs.items():
            if isinstance(value, list):
                node.attr[name].list.type.extend(dtypes.as_dtype(item).enum for item in value)
            elif isinstance(value, bool):
                node.attr[name].b = value
            elif isinstance(value, int):
                node.attr[name].i = value
            else:
                node.attr[name].type = dtypes.as_dtype(value).enum
        with Session(graph=graph, host=graphmill_host) as session:
            if not op_def.output_args:
                return session.run("op", feeds)
            count = len(attrs.get("dtypes", [None]))
            results = session.run([f"op:{number}" for number in range(count)], feeds)
            return results if "dtypes" in attrs else results[0]

    return run_op


def test_tensors_are_saved_and_restored(run: Callable[..., Any], tmp_path: Path) -> None:
    prefix = str(tmp_path / "new" / "ckpt")
    names = strings("a", "b", "s")
    text = strings("x", "yz")
    types = ["float32", "int64", "string"]
    run("SaveV2", prefix, names, strings("", "", ""), [A, B, text], dtypes=types)
    assert sorted(path.name for path in (tmp_path / "new").iterdir()) == [
        "ckpt.data-00000-of-00001",
        "ckpt.index",
    ]
    a, b, s = run("RestoreV2", prefix, names, strings("", "", ""), dtypes=types)
    np.testing.assert_array_equal(a, A)
    np.testing.assert_array_equal(b, B)
    assert s.tolist() == [b"x", b"yz"]


def test_slices_are_saved_merged_and_restored(run: Callable[..., Any], tmp_path: Path) -> None:
    parts = [str(tmp_path / "parts" / str(number)) for number in range(2)]
    for number, prefix in enumerate(parts):
        spec = strings(f"4 3 {2 * number},2:-")
        run("SaveV2", prefix, strings("v"), spec, [A + number], dtypes=["float32"])
    merged = str(tmp_path / "merged")
    run("MergeV2Checkpoints", strings(*parts), merged, delete_old_dirs=True)
    assert not (tmp_path / "parts").exists()
    whole = np.concatenate([A, A + 1])
    (middle,) = run("RestoreV2", merged, strings("v"), strings("4 3 1,2:-"), dtypes=["float32"])
    np.testing.assert_array_equal(middle, whole[1:3])
    (restored,) = run("RestoreV2", merged, strings("v"), strings(""), dtypes=["float32"])
    np.testing.assert_array_equal(restored, whole)


def test_sharded_names_have_both_numbers(run: Callable[..., Any]) -> None:
    name = run("ShardedFilename", "/a/b", np.int32(3), np.int32(12))
    assert name == b"/a/b-00003-of-00012"
    assert run("ShardedFilespec", "/a/b", np.int32(12)) == b"/a/b-?????-of-00012"


def test_tensors_are_saved_and_restored_in_v1(run: Callable[..., Any], tmp_path: Path) -> None:
    path = str(tmp_path / "v1")
    run("Save", path, strings("z", "a"), [A, B], T=["float32", "int64"])
    np.testing.assert_array_equal(run("Restore", path, "z", dt="float32"), A)
    run("SaveSlices", path, strings("v"), strings("4 3 2,2:-"), [A], T=["float32"])
    part = run("RestoreSlice", path, "v", "4 3 3,1:-", dt="float32")
    np.testing.assert_array_equal(part, A[1:])
    with V1Reader(path) as reader:
        assert reader.shape("v") == (4, 3)


def test_restore_v2_reads_v1_files(run: Callable[..., Any]) -> None:
    path = str(STORED / "v1_shards-?????-of-00003")
    (vector,) = run("RestoreV2", path, strings("vector"), strings("300 99,2"), dtypes=["int64"])
    assert vector.tolist() == [99, 100]


def test_files_are_written_read_and_found(run: Callable[..., Any], tmp_path: Path) -> None:
    path = str(tmp_path / "new" / "dir" / "f")
    run("WriteFile", path, np.array(b"\0content\xff", object))
    assert run("ReadFile", path) == b"\0content\xff"
    found = run("MatchingFiles", strings(f"{tmp_path}/new/*/f", f"{tmp_path}/new/d*", "/none/*"))
    assert found.tolist() == [str(tmp_path / "new" / "dir").encode(), path.encode()]


def test_a_pattern_without_a_folder_finds_in_the_working_folder(
    run: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """MatchingFiles finds files of the working folder, and adds `./` to their paths."""
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "y").touch()
    (tmp_path / "a.txt").touch()
    monkeypatch.chdir(tmp_path)
    patterns = {
        "*.txt": "./a.txt",
        "./a*": "./a.txt",
        "d*/y": "./d/y",
        "d/*": "d/y",
        "a.txt": "a.txt",
    }
    for pattern, path in patterns.items():
        assert run("MatchingFiles", strings(pattern)).tolist() == [path.encode()]


def _matching_session(patterns: int, pattern: str, **limits: Any) -> graphmill.Session:
    graph = graphmill.Graph()
    with graph.as_default():
        texts = graph.constant(np.full(patterns, pattern.encode(), object))
        graphmill.ops.io.matching_files(texts, name="found")
    return graphmill.Session(graph=graph, config={"graphmill": {"jit": "off"}, **limits})


def test_paths_of_many_patterns_ask_the_memory_budget(tmp_path: Path) -> None:
    for number in range(20):
        (tmp_path / f"{number}.txt").touch()
    limits = {"graphmill": {"jit": "off", "memory_budget_bytes": 1 << 20}}
    with (
        _matching_session(1000, f"{tmp_path}/*", **limits) as session,
        pytest.raises(errors.ResourceExhaustedError, match="paths that match 1000 patterns"),
    ):
        session.run("found:0")


def test_search_with_many_patterns_ends_with_its_step(tmp_path: Path) -> None:
    (tmp_path / "a.txt").touch()
    with (
        _matching_session(200_000, f"{tmp_path}/*", operation_timeout_in_ms=100) as session,
        pytest.raises(errors.DeadlineExceededError),
    ):
        session.run("found:0")


# Bad input: TensorFlow's codes, and the session goes on.


def refused(kind: type[errors.OpError], words: str) -> Any:
    return pytest.raises(kind, match=words)


RESTORES = [
    (["nope"], [""], ["float32"], errors.NotFoundError, "Key nope not found in checkpoint"),
    (["scalar"], [""], ["int32"], errors.InvalidArgumentError, "int32 does not equal original"),
    (["empty"], ["9 3 -:-"], ["float64"], errors.InvalidArgumentError, "does not match the shape"),
    (["after/odd_offset"], ["3 0,5"], ["uint8"], errors.InternalError, "out of bounds"),
    (["scalar"], ["x"], ["float32"], errors.InvalidArgumentError, "Need at least two elements"),
    (["scalar"], ["", ""], ["float32"], errors.InvalidArgumentError, "different number"),
    (["scalar", "empty"], ["", ""], ["float32"], errors.InvalidArgumentError, "2 tensor names"),
]


@pytest.mark.parametrize(("names", "slices", "types", "kind", "words"), RESTORES)
def test_restoring_reports_wrong_names_slices_and_types(
    run: Callable[..., Any],
    names: list[str],
    slices: list[str],
    types: list[str],
    kind: type[errors.OpError],
    words: str,
) -> None:
    with refused(kind, words):
        prefix = str(STORED / "dtypes")
        run("RestoreV2", prefix, strings(*names), strings(*slices), dtypes=types)


def test_a_missing_checkpoint_is_not_found(run: Callable[..., Any], tmp_path: Path) -> None:
    with refused(errors.NotFoundError, r"none\.index is missing"):
        run("RestoreV2", str(tmp_path / "none"), strings("a"), strings(""), dtypes=["float32"])
    with refused(errors.NotFoundError, "Failed to find any matching files"):
        run("Restore", str(tmp_path / "none"), "a", dt="float32")


def test_errors_name_the_node(run: Callable[..., Any], tmp_path: Path) -> None:
    with refused(errors.NotFoundError, "none") as caught:
        run("ReadFile", str(tmp_path / "none"))
    assert (caught.value.node, caught.value.op_type) == ("op", "ReadFile")


def test_reading_a_folder_as_a_file_is_refused(run: Callable[..., Any], tmp_path: Path) -> None:
    with refused(errors.FailedPreconditionError, "folder"):
        run("ReadFile", str(tmp_path))


def test_a_missing_shard_is_not_found(run: Callable[..., Any], tmp_path: Path) -> None:
    prefix = str(tmp_path / "x")
    checkpoint.save_checkpoint(prefix, {"a": A, "b": B}, num_shards=2)
    Path(prefix + ".data-00001-of-00002").unlink()
    with refused(errors.NotFoundError, "data-00001-of-00002 is missing"):
        run("RestoreV2", prefix, strings("a", "b"), strings("", ""), dtypes=["float32", "int64"])


def test_a_wrong_checksum_is_data_loss(run: Callable[..., Any], tmp_path: Path) -> None:
    prefix = str(tmp_path / "x")
    checkpoint.save_checkpoint(prefix, {"a": A})
    Path(prefix + ".data-00000-of-00001").write_bytes(bytes(A.nbytes))
    with refused(errors.DataLossError, "Checksum does not match"):
        run("RestoreV2", prefix, strings("a"), strings(""), dtypes=["float32"])


def test_large_tensors_are_restored_in_order(run: Callable[..., Any], tmp_path: Path) -> None:
    tensors = {name: np.full(1 << 18, ord(name), np.float32) for name in "abcd"}
    prefix = str(tmp_path / "x")
    checkpoint.save_checkpoint(prefix, tensors | {"s": np.int64(3)})
    names = ["d", "b", "s", "a", "c", "b"]
    types = ["float32", "float32", "int64", "float32", "float32", "float32"]
    restored = run("RestoreV2", prefix, strings(*names), strings(*[""] * 6), dtypes=types)
    assert [value.ravel()[0] for value in restored] == [100, 98, 3, 97, 99, 98]
    data = Path(f"{prefix}.data-00000-of-00001")
    content = bytearray(data.read_bytes())
    content[100], content[(1 << 20) + 100] = 1, 1  # of a and b
    data.write_bytes(content)
    with refused(errors.DataLossError, "tensor b"):
        run("RestoreV2", prefix, strings(*names), strings(*[""] * 6), dtypes=types)


def test_saving_reports_wrong_names_and_slices(run: Callable[..., Any], tmp_path: Path) -> None:
    prefix = str(tmp_path / "x")
    for names, slices, kind, words in [
        (["a", "a"], ["", ""], errors.InvalidArgumentError, "Adding duplicate key: a"),
        (["a"], [""], errors.InvalidArgumentError, "1 tensor names but 2 tensors"),
        (["a", "b"], ["4 3 0,1:-", ""], errors.InvalidArgumentError, "does not match the shape"),
    ]:
        with refused(kind, words):
            types = ["float32", "float32"]
            run("SaveV2", prefix, strings(*names), strings(*slices), [A, A], dtypes=types)
    assert not list(tmp_path.iterdir())  # nothing half written


def test_merging_reports_missing_files(run: Callable[..., Any], tmp_path: Path) -> None:
    with refused(errors.InvalidArgumentError, "allow_missing_files was set to false"):
        run("MergeV2Checkpoints", strings(str(tmp_path / "none")), str(tmp_path / "m"))


def test_session_continues_after_an_error(tmp_path: Path, graphmill_host: Any) -> None:
    graph = proto.GraphDef()
    graph.node.add(name="path", op="Placeholder").attr["dtype"].type = dtypes.string.enum
    graph.node.add(name="read", op="ReadFile", input=["path"])
    (tmp_path / "f").write_bytes(b"text")
    with Session(graph=graph, host=graphmill_host) as session:
        with contextlib.suppress(errors.NotFoundError):
            session.run("read:0", {"path:0": str(tmp_path / "none")})
        assert session.run("read:0", {"path:0": str(tmp_path / "f")}) == b"text"
