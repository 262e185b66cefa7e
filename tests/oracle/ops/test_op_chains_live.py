"""Random chains of ops on edge values give equal results, interpreted and compiled.

The values are empty, of rank 0 to 6, at the limits of their type, NaN, infinite, zeros of both
signs, and strings with zero bytes and bytes that are no UTF-8. Each op is built by TensorFlow, from
tensors before it. `GRAPHMILL_CHAINS=500:900` compares the chains of these seeds.
"""

from __future__ import annotations

import os

import ml_dtypes
import numpy as np
import pytest

from graphmill import proto
from graphmill.errors import OpError
from graphmill.session.session import Session
from graphmill.testing.differential.compiled_graphs import jit_config

pytestmark = pytest.mark.oracle
tf = pytest.importorskip("tensorflow")

BLOCK = 20
FLOATS = (np.float32, np.float64, np.float16, ml_dtypes.bfloat16)
INTEGERS = (np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64)
NUMBERS = (*FLOATS, *INTEGERS)
ANY = (*NUMBERS, np.complex64, np.bool_, object)
STRINGS = (
    *(b"", b"a", b"Abc", b"a\0b", b"\xff\xfe", b"\xc3\xa9t\xc3\xa9", b" x \n", b"-0", b"1e5"),
    *(b"nan", b"99999999999", b"\xe4\xb8\xad", b"a,b,,c", b"\0"),
)
RTOL = {"float32": 1e-4, "float64": 1e-9, "float16": 8e-3, "bfloat16": 6e-2, "complex64": 1e-3}


def seeds():
    first, _, end = os.environ.get("GRAPHMILL_CHAINS", "60").rpartition(":")
    return range(int(first or 0), int(end))


class Chain:
    """A graph that grows op by op, with the value of each tensor."""

    def __init__(self, seed):
        self.random = np.random.default_rng(seed)
        self.graph = tf.Graph()
        self.feeds = {}
        self.tensors = []  # (tensor, value)
        self.fetches = []

    def choice(self, items):
        return items[int(self.random.integers(len(items)))]

    def shape(self):
        while True:
            rank = self.choice([0, 1, 1, 2, 2, 3, 4, 6])
            shape = tuple(self.choice([0, 1, 2, 2, 3, 4]) for _ in range(rank))
            if np.prod(shape) <= 150:
                return shape

    def values(self, dtype, shape):
        dtype, size = np.dtype(dtype), int(np.prod(shape))
        if dtype.kind == "O":
            return np.array([*(self.choice(STRINGS) for _ in range(size)), None])[:-1].reshape(
                shape
            )
        if dtype.kind == "b":
            return self.random.random(shape) < 0.5
        if dtype.kind == "c":
            return (self.random.normal(size=shape) + 1j).astype(dtype)
        if dtype.kind in "iu":
            limits = np.iinfo(dtype)
            special = [0, 1, 2, 7, limits.max, limits.min, limits.max - 1]
            return np.array([self.choice(special) for _ in range(size)], dtype).reshape(shape)
        special = [0.0, -0.0, np.inf, -np.inf, np.nan, 1, -1, 0.5, 2.5, -2.5, 88.0, 1e-3]
        numbers = self.random.normal(size=shape) * self.choice([1, 50])
        is_special = self.random.random(shape) < self.choice([0, 0.5])
        chosen = np.array(special)[self.random.integers(len(special), size=shape)]
        return np.where(is_special, chosen, numbers).astype(dtype)

    def fed(self, value):
        """Return a placeholder, of known shape or not, and its value."""
        dtype = tf.string if value.dtype.kind == "O" else tf.as_dtype(value.dtype)
        shape = value.shape if self.random.random() < 0.4 else None
        with self.graph.as_default():
            tensor = tf.compat.v1.placeholder(dtype, shape)
        self.feeds[tensor.name] = value
        return tensor, value

    def constant(self, value, dtype=np.int32):
        with self.graph.as_default():
            return tf.constant(np.asarray(value, dtype)), np.asarray(value, dtype)

    def pick(self, dtypes):
        """Return a tensor of one of some types: often one of the chain."""
        dtypes = [np.dtype(dtype) for dtype in dtypes]
        found = [pair for pair in self.tensors if pair[1].dtype in dtypes]
        if found and self.random.random() < 0.7:
            return self.choice(found)
        self.tensors.append(self.fed(self.values(self.choice(dtypes), self.shape())))
        return self.tensors[-1]

    def like(self, value, shape=None):
        return self.fed(self.values(value.dtype, value.shape if shape is None else shape))

    def add(self, op, **arguments):
        """Add an op; do nothing if TensorFlow has no such op, or refuses the types."""
        make = getattr(tf.raw_ops, op)

        def part(value, index):
            if isinstance(value, list) and value and isinstance(value[0], tuple):
                return [part(one, index) for one in value]
            is_pair = isinstance(value, tuple) and isinstance(value[0], tf.Tensor)
            return value[index] if is_pair else value

        values = {name: part(value, 1) for name, value in arguments.items()}
        try:
            results = make(**values)
            with self.graph.as_default():
                tensors = make(**{name: part(value, 0) for name, value in arguments.items()})
        except (TypeError, ValueError, tf.errors.OpError):
            return
        listed = [tensors] if isinstance(tensors, tf.Tensor) else list(tensors)
        values = [results] if isinstance(tensors, tf.Tensor) else list(results)
        for tensor, value in zip(listed, values, strict=True):
            array = np.asarray(value.numpy(), object if tensor.dtype == tf.string else None)
            self.tensors.append((tensor, array))
            self.fetches.append(tensor.name)


def axes_of(chain, value):
    return [axis - value.ndim for axis in range(value.ndim) if chain.random.random() < 0.5]


def indices_of(chain, size):
    count = chain.choice([0, 1, 3]) if size else 0
    return chain.fed(chain.random.integers(0, max(size, 1), count).astype(np.int32))


UNARY = {
    **dict.fromkeys(("Neg", "Square", "Sign"), NUMBERS),
    **dict.fromkeys(("Floor", "Ceil", "Rint", "IsNan", "IsInf", "Sqrt", "Tanh"), FLOATS),
    "Erf": (np.float32, *FLOATS[2:]),  # TensorFlow's of a float64 far from zero is NaN
    **dict.fromkeys(("Invert", "PopulationCount"), INTEGERS),
    **dict.fromkeys(("ZerosLike", "OnesLike"), ANY[:-1]),
}
BINARY = {
    **dict.fromkeys(("AddV2", "Sub", "Mul", "Maximum", "Minimum"), NUMBERS),
    **dict.fromkeys(("FloorDiv", "FloorMod"), INTEGERS),
    **dict.fromkeys(("BitwiseAnd", "BitwiseXor", "LeftShift", "RightShift"), INTEGERS),
    **dict.fromkeys(("Less", "GreaterEqual"), NUMBERS),
    **dict.fromkeys(("Equal", "NotEqual"), ANY),
}


def unary(chain):
    op = chain.choice(list(UNARY))
    chain.add(op, x=chain.pick(UNARY[op]))


def binary(chain):
    op = chain.choice(list(BINARY))
    x = chain.pick(BINARY[op])
    shape = [size if chain.random.random() < 0.7 else 1 for size in x[1].shape]
    chain.add(op, x=x, y=chain.like(x[1], tuple(shape[chain.choice([0, 0, 1]) :])))


def reduction(chain):
    x = chain.pick(INTEGERS)
    op = chain.choice(["Sum", "Prod", "Max", "Min"])
    keep = bool(chain.random.random() < 0.5)
    chain.add(op, input=x, axis=chain.constant(axes_of(chain, x[1])), keep_dims=keep)


def cast(chain):
    target = tf.as_dtype(chain.choice(INTEGERS[2:4]))
    chain.add("Cast", x=chain.pick((*INTEGERS, np.bool_)), DstT=target)


def slices(chain):
    x = chain.pick(ANY)
    begin = [int(chain.random.integers(size + 1)) for size in x[1].shape]
    chain.add("Slice", input=x, begin=chain.constant(begin), size=chain.constant([-1] * len(begin)))


def strides(chain):
    x = chain.pick(ANY)
    rank = x[1].ndim
    bounds = [chain.constant(chain.random.integers(-4, 5, rank)) for _ in range(2)]
    steps = chain.constant([chain.choice([1, 2, -1, -2]) for _ in range(rank)])
    mask = int(chain.random.integers(1 << rank))
    chain.add(
        "StridedSlice", input=x, begin=bounds[0], end=bounds[1], strides=steps, begin_mask=mask
    )


def reverse(chain):
    x = chain.pick(ANY)
    chain.add("ReverseV2", tensor=x, axis=chain.constant(axes_of(chain, x[1])))


def transpose(chain):
    x = chain.pick(ANY)
    chain.add("Transpose", x=x, perm=chain.constant(chain.random.permutation(x[1].ndim)))


def pad(chain):
    x = chain.pick(ANY[:-1])
    sizes = chain.random.integers(0, 2, (x[1].ndim, 2))
    chain.add(
        "PadV2", input=x, paddings=chain.constant(sizes), constant_values=chain.like(x[1], ())
    )


def concat(chain):
    x = chain.pick(ANY)
    values = [x, chain.like(x[1])]
    chain.add("ConcatV2", values=values, axis=chain.constant(-1))
    chain.add("Pack", values=values, axis=-1)


def gather(chain):
    x = chain.pick(ANY)
    if x[1].ndim:
        indices = indices_of(chain, x[1].shape[-1])
        chain.add("GatherV2", params=x, indices=indices, axis=chain.constant(-1))


def scatter(chain):
    x = chain.pick(INTEGERS)
    if x[1].ndim:
        indices = indices_of(chain, x[1].shape[0])
        updates = chain.like(x[1], (*indices[1].shape, *x[1].shape[1:]))
        op = chain.choice(["TensorScatterAdd", "TensorScatterMax", "TensorScatterSub"])
        chain.add(op, tensor=x, indices=chain.fed(indices[1][:, None]), updates=updates)


def select(chain):
    x = chain.pick(ANY)
    chain.add("SelectV2", condition=chain.like(np.zeros(x[1].shape, bool)), t=x, e=chain.like(x[1]))


def text(chain):
    x = chain.pick([object])
    op, attrs = chain.choice(
        [
            ("StringLower", {"encoding": "utf-8"}),
            ("StringUpper", {"encoding": ""}),
            ("StringLength", {"unit": "UTF8_CHAR"}),
            ("StringStrip", {}),
            ("EncodeBase64", {"pad": True}),
            ("StringToHashBucketFast", {"num_buckets": 97}),
            ("StaticRegexFullMatch", {"pattern": "a.*"}),
        ]
    )
    chain.add(op, input=x, **attrs)


STEPS = (
    *(unary, unary, binary, binary, binary, reduction, cast, slices, strides, reverse, transpose),
    *(pad, concat, gather, scatter, select, text),
)


def chain_of(seed):
    chain = Chain(seed)
    for _ in range(int(chain.random.integers(2, 9))):
        chain.choice(STEPS)(chain)
    return chain


def answers(chain, mode):
    graph_def = proto.GraphDef.FromString(chain.graph.as_graph_def().SerializeToString())
    with Session(graph=graph_def, config=jit_config(mode)) as session:
        results = [session.run(chain.fetches, chain.feeds) for _ in range(2)]
    return results[-1]


def difference(expected, actual):
    expected, actual = np.asarray(expected), np.asarray(actual)
    if expected.shape != actual.shape or expected.dtype != actual.dtype:
        return f"{actual.dtype}{actual.shape}, not {expected.dtype}{expected.shape}"
    if expected.dtype.name not in RTOL:
        return "" if np.array_equal(expected, actual) else "other values"
    wide = np.complex128 if expected.dtype.kind == "c" else np.float64
    rtol = RTOL[expected.dtype.name]
    is_close = np.isclose(actual.astype(wide), expected.astype(wide), rtol, rtol, equal_nan=True)
    return "" if is_close.all() else "other values"


@pytest.mark.parametrize("mode", ["off", "eager"])
@pytest.mark.parametrize("start", seeds()[::BLOCK])
def test_chains_give_equal_results(start, mode):
    for seed in range(start, min(start + BLOCK, seeds().stop)):
        chain = chain_of(seed)
        if not chain.fetches:
            continue
        with tf.compat.v1.Session(graph=chain.graph) as session:
            expected = session.run(chain.fetches, chain.feeds)
        try:
            actual = answers(chain, mode)
        except OpError as error:
            pytest.fail(f"seed {seed}: {error}")
        for name, *pair in zip(chain.fetches, expected, actual, strict=True):
            found = difference(*pair)
            assert not found, f"seed {seed}, {name}: {found}: {pair}"
