"""Write the checkpoints of ``tests/data/checkpoints`` with TensorFlow.

    python tools/make_checkpoints.py        (in an environment with tensorflow)

``contents.json`` lists the contents of each checkpoint, in the order in which they were saved. The
tests read the checkpoints and compare them with it, and write the same contents and compare the
bytes of the files.
A tensor is a list: name, dtype, shape, values (flat; strings as latin-1 text), and for a slice
of a partitioned variable the text that SaveV2 takes: the whole shape and the slice.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import tensorflow as tf
from tensorflow.python.ops import gen_io_ops

FOLDER = Path(__file__).resolve().parent.parent / "tests" / "data" / "checkpoints"

NUMBERS = [
    "float16",
    "bfloat16",
    "float32",
    "float64",
    "int8",
    "int16",
    "int32",
    "int64",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "bool",
    "complex64",
    "complex128",
    "qint8",
    "quint8",
    "qint16",
    "quint16",
    "qint32",
    "float8_e5m2",
    "float8_e4m3fn",
    "int4",
    "uint4",
]
NUMBERS_V1 = [
    "float16",
    "float32",
    "float64",
    "int8",
    "int16",
    "int32",
    "int64",
    "uint8",
    "uint16",
    "bool",
    "complex64",
    "complex128",
    "qint8",
    "quint8",
    "qint32",
]


def main() -> None:
    """Write everything again."""
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir(parents=True)
    contents = {
        "dtypes": [_numbers(dtype, [2, 3]) for dtype in NUMBERS] + _strings() + _odd_shapes(),
        "many": [[f"scope_{i // 10}/variable_{i}", "int32", [], [i]] for i in range(60)],
    }
    for name, tensors in contents.items():
        _save(FOLDER / name, tensors)
    contents["partitioned"] = _partitioned()
    contents["v1"] = [_numbers(dtype, [2, 3]) for dtype in NUMBERS_V1] + _strings() + _odd_shapes()
    _save_v1(FOLDER / "v1", contents["v1"])
    for shard, tensors in enumerate(_parts("float16")):
        contents[f"v1_shards-{shard:05d}-of-00003"] = tensors
        _save_v1(FOLDER / f"v1_shards-{shard:05d}-of-00003", tensors)
    _save_objects(FOLDER / "objects")
    text = ",\n".join(f" {json.dumps(name)}: {_rows(rows)}" for name, rows in contents.items())
    (FOLDER / "contents.json").write_text("{\n" + text + "\n}\n", encoding="utf-8")


def _rows(rows: list[list]) -> str:
    return "[\n  " + ",\n  ".join(json.dumps(row) for row in rows) + "\n ]"


def _numbers(dtype: str, shape: list[int]) -> list:
    count = 1
    for size in shape:
        count *= size
    return [f"t/{dtype}", dtype, shape, [i % 2 if dtype == "bool" else i for i in range(count)]]


def _strings() -> list[list]:
    long = "x" * 300  # a length of two bytes
    return [
        ["t/string", "string", [2, 2], ["", "a\0b", long, "\xff\xfe"]],
        ["t/string_scalar", "string", [], ["scalar"]],
        ["t/no_strings", "string", [0, 2], []],
    ]


def _odd_shapes() -> list[list]:
    return [
        ["scalar", "float32", [], [7]],
        ["empty", "float64", [0, 3], []],
        ["long", "int64", [1, 1, 300], list(range(300))],
        ["after/odd_offset", "uint8", [3], [1, 2, 3]],
        ["\xe9t\xe9", "float32", [1], [1]],
    ]


def _parts(own_dtype: str) -> list[list[list]]:
    """Return three shards: a matrix split in both dimensions, and variables of each shard."""
    shards: list[list[list]] = [[], [], []]
    for shard, (rows, columns) in enumerate([("0,3", "-"), ("3,2", "0,4"), ("3,2", "4,2")]):
        first, count = (int(n) for n in rows.split(","))
        lower, upper = (
            (0, 6) if columns == "-" else (int(columns[0]), int(columns[0]) + int(columns[2]))
        )
        values = [6 * i + j for i in range(first, first + count) for j in range(lower, upper)]
        part = ["matrix", "float32", [count, upper - lower], values, f"5 6 {rows}:{columns}"]
        vector = ["vector", "int64", [100], list(range(100 * shard, 100 * shard + 100))]
        shards[shard] += [part, [*vector, f"300 {100 * shard},100"]]
        shards[shard].append([f"own_{shard}", own_dtype, [3], [shard, 1, 2]])
    # A slice that covers the whole tensor does not count as a slice.
    shards[2].append(["whole", "int32", [2], [8, 9], "2 0,2"])
    return shards


def _partitioned() -> list[list]:
    shards = _parts("bfloat16")
    with tempfile.TemporaryDirectory() as folder:
        prefixes = [f"{folder}/{shard}" for shard in range(len(shards))]
        for prefix, tensors in zip(prefixes, shards, strict=True):
            _save(Path(prefix), tensors)
        gen_io_ops.merge_v2_checkpoints(prefixes, str(FOLDER / "partitioned"))
    return [tensor for tensors in shards for tensor in tensors]


def _columns(tensors: list[list]) -> tuple[list[bytes], list[str], list[tf.Tensor]]:
    names = [tensor[0].encode() for tensor in tensors]
    slices = [tensor[4] if len(tensor) > 4 else "" for tensor in tensors]
    return names, slices, [_tensor(*tensor[1:4]) for tensor in tensors]


def _tensor(dtype: str, shape: list[int], values: list) -> tf.Tensor:
    if dtype == "string":
        return tf.reshape(tf.constant([v.encode("latin-1") for v in values], tf.string), shape)
    kind = tf.as_dtype(dtype)
    if kind.is_quantized:
        plain = {1: tf.uint8 if dtype[1] == "u" else tf.int8, 4: tf.int32}.get(kind.size)
        plain = plain or (tf.uint16 if dtype[1] == "u" else tf.int16)
        return tf.bitcast(tf.constant(values, plain, shape), kind)
    if "float8" in dtype:
        return tf.cast(tf.constant(values, tf.float32, shape), kind)
    if "int4" in dtype:
        return tf.cast(tf.constant(values, tf.int8, shape), kind)
    return tf.cast(tf.constant(values, tf.float64, shape), kind)


def _save(prefix: Path, tensors: list[list]) -> None:
    gen_io_ops.save_v2(str(prefix), *_columns(tensors))


def _save_v1(path: Path, tensors: list[list]) -> None:
    names, slices, values = _columns(tensors)
    gen_io_ops.save_slices(str(path), names, slices, values)


def _save_objects(folder: Path) -> None:
    """Save as TF2 does: an object graph, and the file that names the latest checkpoint."""
    model = tf.Module()
    model.kernel = tf.Variable([[1.0, 2.0], [3.0, 4.0]], name="kernel")
    model.steps = [tf.Variable(5, dtype=tf.int64)]
    checkpoint = tf.train.Checkpoint(model=model)
    manager = tf.train.CheckpointManager(checkpoint, str(folder), max_to_keep=1)
    manager.save(checkpoint_number=1)
    manager.save(checkpoint_number=2)


if __name__ == "__main__":
    main()
