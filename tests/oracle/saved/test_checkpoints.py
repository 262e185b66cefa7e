"""TensorFlow and graphmill read each other's checkpoints and write the same bytes (clause G2)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from graphmill import dtypes
from graphmill.saved import checkpoint
from graphmill.saved.bundle_merge import merge_bundles
from graphmill.saved.bundle_reader import BundleReader
from graphmill.saved.bundle_writer import BundleWriter
from graphmill.saved.tensor_slice import TensorSlice, parse_shape_and_slice
from graphmill.saved.v1_checkpoint import V1Reader, V1Writer

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.oracle

NUMBERS = [
    *("float16", "bfloat16", "float32", "float64", "complex64", "complex128", "bool"),
    *("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
]
Tensors = dict[str, np.ndarray[Any, Any]]


@pytest.fixture(scope="module")
def io(tf: Any) -> Any:
    """Yield the ops that save and restore."""
    del tf  # imported
    from tensorflow.python.ops import gen_io_ops

    return gen_io_ops


def some_tensors(seed: int, count: int = 12) -> Tensors:
    """Return tensors of random names, types and shapes."""
    rng = np.random.default_rng(seed)
    found: Tensors = {}
    for number in range(count):
        shape = tuple(int(n) for n in rng.integers(0, 6, size=rng.integers(0, 4)))
        name = f"{'scope/' * int(rng.integers(0, 3))}v{rng.integers(0, 1000)}_{number}"
        if number % 5 == 0:
            words = np.empty(shape, object)
            words.reshape(-1)[:] = [rng.bytes(int(rng.integers(0, 200))) for _ in range(words.size)]
            found[name] = words
            continue
        kind = dtypes.as_dtype(NUMBERS[int(rng.integers(len(NUMBERS)))]).as_numpy_dtype
        found[name] = np.asarray(rng.integers(0, 100, shape)).astype(kind)
    return found


def save_with_tensorflow(tf: Any, io: Any, prefix: Path, tensors: Tensors) -> None:
    slices = [""] * len(tensors)
    io.save_v2(str(prefix), list(tensors), slices, [tf.constant(v) for v in tensors.values()])


def same(left: Any, right: Any) -> bool:
    if left.dtype.hasobject:
        return left.shape == right.shape and left.tolist() == right.tolist()
    return (left.dtype, left.shape, left.tobytes()) == (right.dtype, right.shape, right.tobytes())


def assert_same_files(left: Path, right: Path) -> None:
    names = sorted(path.name for path in left.iterdir())
    assert names == sorted(path.name for path in right.iterdir())
    for name in names:
        assert (left / name).read_bytes() == (right / name).read_bytes(), name


@pytest.mark.parametrize("seed", range(8))
def test_each_system_reads_the_others_checkpoints(
    tf: Any, io: Any, seed: int, tmp_path: Path
) -> None:
    tensors = some_tensors(seed)
    for folder in ("theirs", "ours"):
        (tmp_path / folder).mkdir()
    save_with_tensorflow(tf, io, tmp_path / "theirs" / "x", tensors)
    checkpoint.save_checkpoint(tmp_path / "ours" / "x", tensors)
    assert_same_files(tmp_path / "ours", tmp_path / "theirs")
    reader = tf.train.load_checkpoint(str(tmp_path / "ours" / "x"))
    with checkpoint.load_checkpoint(tmp_path / "theirs" / "x") as ours:
        assert {k: list(v) for k, v in ours.get_variable_to_shape_map().items()} == (
            reader.get_variable_to_shape_map()
        )
        for name, values in tensors.items():
            assert same(ours.get_tensor(name), values), name
            restored = io.restore_v2(
                str(tmp_path / "ours" / "x"), [name], [""], [tf.constant(values).dtype]
            )
            assert same(np.asarray(restored[0].numpy(), values.dtype), values), name


def test_an_index_of_many_blocks_is_read_by_both(tf: Any, io: Any, tmp_path: Path) -> None:
    # Long names, so that the table has several blocks of 256 kB and separators between them.
    rng = np.random.default_rng(0)
    names = {
        f"layer_{rng.integers(0, 50)}/{rng.bytes(int(rng.integers(1, 60))).hex()}"
        for _ in range(9000)
    }
    tensors: Tensors = {name: np.float32(len(name)) for name in sorted(names)}  # type: ignore[misc]
    for folder in ("theirs", "ours"):
        (tmp_path / folder).mkdir()
    save_with_tensorflow(tf, io, tmp_path / "theirs" / "x", tensors)
    checkpoint.save_checkpoint(tmp_path / "ours" / "x", tensors)
    assert (tmp_path / "ours" / "x.index").stat().st_size > 600_000
    assert_same_files(tmp_path / "ours", tmp_path / "theirs")
    with BundleReader(tmp_path / "theirs" / "x") as reader:
        assert reader.names() == sorted(tensors)
        assert reader.read_tensor(max(tensors)) == tensors[max(tensors)]


def test_partitioned_variables_are_merged_as_in_tensorflow(
    tf: Any, io: Any, tmp_path: Path
) -> None:
    whole = np.arange(60, dtype=np.float32).reshape(6, 10)
    specs = ["6 10 0,2:-", "6 10 2,4:0,3", "6 10 2,4:3,7"]
    for folder in ("theirs", "ours"):
        prefixes = [str(tmp_path / f"parts_{folder}" / str(n)) for n in range(3)]
        for number, (prefix, spec) in enumerate(zip(prefixes, specs, strict=True)):
            shape, piece = parse_shape_and_slice(spec)
            part, own = whole[piece.indices(shape)], np.int64(number)
            if folder == "theirs":
                values = [tf.constant(part), tf.constant(own)]
                io.save_v2(prefix, ["w", f"own_{number}"], [spec, ""], values)
            else:
                with BundleWriter(prefix) as writer:
                    writer.add_slice("w", shape, piece, part)
                    writer.add(f"own_{number}", own)
        (tmp_path / folder).mkdir()
        if folder == "theirs":
            io.merge_v2_checkpoints(prefixes, str(tmp_path / folder / "x"))
        else:
            merge_bundles(prefixes, str(tmp_path / folder / "x"))
    assert_same_files(tmp_path / "ours", tmp_path / "theirs")
    for spec in ["", "6 10 1,3:2,5", "6 10 2,4:0,3"]:
        expected = parse_shape_and_slice(spec)[1] if spec else TensorSlice.full(2)
        (theirs,) = io.restore_v2(str(tmp_path / "ours" / "x"), ["w"], [spec], [tf.float32])
        with BundleReader(tmp_path / "theirs" / "x") as reader:
            np.testing.assert_array_equal(reader.read_slice("w", expected), theirs.numpy())
            np.testing.assert_array_equal(theirs.numpy(), whole[expected.indices(whole.shape)])


def test_several_data_files_are_read_by_tensorflow(tf: Any, tmp_path: Path) -> None:
    tensors = some_tensors(99)
    checkpoint.save_checkpoint(tmp_path / "x", tensors, num_shards=4)
    reader = tf.train.load_checkpoint(str(tmp_path / "x"))
    for name, values in tensors.items():
        if values.dtype.name != "bfloat16":
            assert same(np.asarray(reader.get_tensor(name), values.dtype), values), name


def test_missing_sources_are_handled_as_in_tensorflow(io: Any, tmp_path: Path) -> None:
    for folder in ("theirs", "ours"):
        checkpoint.save_checkpoint(tmp_path / folder / "a", {"t": 1.5})
    sources = {f: [str(tmp_path / f / "none"), str(tmp_path / f / "a")] for f in ("theirs", "ours")}
    io.merge_v2_checkpoints(
        sources["theirs"], str(tmp_path / "theirs" / "m"), allow_missing_files=True
    )
    merge_bundles(sources["ours"], str(tmp_path / "ours" / "m"), allow_missing_files=True)
    assert_same_files(tmp_path / "ours", tmp_path / "theirs")


V1_NUMBERS = ["float16", "float32", "float64", "complex64", "bool", "int8", "int32", "int64"]


def test_each_system_reads_the_others_first_format(tf: Any, io: Any, tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    tensors: Tensors = {
        f"v/{dtype}": rng.integers(0, 2, (3, 4)).astype(dtype) for dtype in sorted(V1_NUMBERS)
    }
    words = np.empty(3, object)
    words[:] = [b"", b"a\0b", b"x" * 500]
    tensors["words"] = words
    values = [tf.constant(v) for v in tensors.values()]
    io.save(str(tmp_path / "theirs"), list(tensors), values)
    writer = V1Writer(str(tmp_path / "ours"))
    for name, value in tensors.items():
        writer.add(name, value, dtypes.as_dtype(value.dtype))
    writer.finish()
    assert (tmp_path / "ours").read_bytes() == (tmp_path / "theirs").read_bytes()
    with V1Reader(str(tmp_path / "theirs")) as reader:
        for name, value in tensors.items():
            assert same(reader.read_tensor(name), value), name
            dtype = tf.constant(value).dtype
            restored = io.restore(str(tmp_path / "ours"), name, dtype).numpy()
            assert same(np.asarray(restored, value.dtype), value), name


def test_a_keras_style_checkpoint_is_read(tf: Any, tmp_path: Path) -> None:
    variable = tf.Variable(np.arange(6, dtype=np.float32).reshape(2, 3))
    manager = tf.train.CheckpointManager(
        tf.train.Checkpoint(v=variable), str(tmp_path), max_to_keep=2
    )
    manager.save()
    manager.save()
    assert checkpoint.latest_checkpoint(tmp_path) == tf.train.latest_checkpoint(str(tmp_path))
    ours = checkpoint.list_variables(tmp_path)
    theirs = tf.train.list_variables(str(tmp_path))
    assert ours == [(name, tuple(shape)) for name, shape in theirs]
