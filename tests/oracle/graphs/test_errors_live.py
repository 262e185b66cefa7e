"""Bad graphs, feeds and fetches fail alike in TensorFlow and graphmill (S3, S6, S12)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from graphmill import dtypes, errors, proto
from graphmill.ops.attrs.attr_types import ShapeAttr, TensorAttr
from graphmill.ops.attrs.attr_value import attr_to_proto

pytestmark = pytest.mark.oracle

T = {"T": dtypes.float32}
X = np.ones((2, 3), np.float32)
FLOAT = {"dtype": dtypes.float32, "shape": ShapeAttr((2, 3))}
VARIABLE = {"dtype": dtypes.float32, "shape": ShapeAttr((2,)), "shared_name": b"v"}

# TensorFlow's Python refuses much of this before its runtime sees it, with plain exceptions;
# ours are status errors throughout, of these classes.
FRONT_END = {"InvalidArgument", "NotFound", "AlreadyExists"}


@dataclass
class Bad:
    """A bad input: nodes as (name, op, inputs, attrs), feeds and fetches."""

    nodes: list[tuple[str, str, list[str], dict[str, Any]]]
    fetches: list[str] = field(default_factory=lambda: ["y:0"])
    feeds: dict[str, Any] = field(default_factory=dict)


X_IN = ("x", "Placeholder", [], FLOAT)
NEG = ("y", "Neg", ["x"], T)
MATMUL = ("y", "MatMul", ["x", "x"], T)
READ = ("y", "ReadVariableOp", ["v"], {"dtype": dtypes.float32})


def const(name, value):
    attr = TensorAttr(np.asarray(value))
    return (name, "Const", [], {"dtype": attr.dtype, "value": attr})


CASES = {
    "missing feed": Bad([X_IN, NEG]),
    "unknown fetch": Bad([X_IN, NEG], ["z:0"], {"x:0": X}),
    "unknown output of a fetch": Bad([X_IN, NEG], ["y:1"], {"x:0": X}),
    "unknown feed": Bad([X_IN, NEG], ["y:0"], {"x:0": X, "w:0": X}),
    "feed of wrong shape": Bad([X_IN, NEG], ["y:0"], {"x:0": X.T}),
    "feed of wrong dtype": Bad([X_IN, NEG], ["y:0"], {"x:0": np.array([[b"a"] * 3] * 2, object)}),
    "shapes that do not match": Bad([X_IN, MATMUL], ["y:0"], {"x:0": X}),
    "uninitialized variable": Bad([("v", "VariableV2", [], VARIABLE), ("y", "Identity", ["v"], T)]),
    "uninitialized resource variable": Bad([("v", "VarHandleOp", [], VARIABLE), READ]),
    "index out of range": Bad(
        [
            X_IN,
            const("i", np.int32([7])),
            const("a", np.int32(0)),
            (
                "y",
                "GatherV2",
                ["x", "i", "a"],
                {"Tparams": dtypes.float32, "Tindices": dtypes.int32, "Taxis": dtypes.int32},
            ),
        ],
        feeds={"x:0": X},
    ),
    "division by zero": Bad(
        [
            const("a", np.int32([1])),
            const("b", np.int32([0])),
            ("y", "FloorDiv", ["a", "b"], {"T": dtypes.int32}),
        ]
    ),
    "failed assertion": Bad(
        [
            const("c", np.bool_(False)),
            const("d", np.float32(3)),
            ("y", "Assert", ["c", "d"], {"T": (dtypes.float32,)}),
        ],
        ["y"],
    ),
    "unknown op": Bad([X_IN, ("y", "Negg", ["x"], {})], feeds={"x:0": X}),
    "missing input": Bad([("y", "Neg", ["x"], T)]),
    "input that does not exist": Bad([X_IN, ("y", "Neg", ["x:3"], T)]),
    "too few inputs": Bad([X_IN, ("y", "AddV2", ["x"], T)]),
    "too many inputs": Bad([X_IN, ("y", "Neg", ["x", "x"], T)]),
    "name used twice": Bad([X_IN, X_IN, NEG]),
    "wrong dtype on an edge": Bad([X_IN, ("y", "Neg", ["x"], {"T": dtypes.int32})]),
    "dtype that the op does not take": Bad([X_IN, ("y", "LogicalNot", ["x"], {})]),
    "attr of a wrong type": Bad([X_IN, ("y", "Neg", ["x"], {"T": 3})]),
    "attr value that is not allowed": Bad([X_IN, ("y", "Sqrt", ["x"], {"T": dtypes.int32})]),
    "missing attr": Bad([X_IN, ("y", "Cast", ["x"], {"SrcT": dtypes.float32})]),
    "cycle": Bad([("a", "Neg", ["y"], T), ("y", "Neg", ["a"], T)]),
    "control input that does not exist": Bad([X_IN, ("y", "Neg", ["x", "^z"], T)]),
    "data after control input": Bad([X_IN, ("y", "Neg", ["^x", "x"], T)]),
}


def graph_def(bad: Bad) -> Any:
    made = proto.GraphDef()
    made.versions.producer = 1700
    for name, op, inputs, attrs in bad.nodes:
        node = made.node.add(name=name, op=op, input=inputs)
        for key, value in attrs.items():
            attr_to_proto(value, node.attr[key])
    return made


def class_of(error: BaseException) -> str:
    return type(error).__name__.removesuffix("Error")


def ours(bad: Bad, host) -> str:
    from graphmill.session.session import Session

    try:
        with Session(graph=graph_def(bad), host=host) as session:
            targets = [name for name in bad.fetches if ":" not in name]
            session.run([f for f in bad.fetches if f not in targets], bad.feeds, targets=targets)
    except errors.OpError as error:
        # Errors of callers are subclasses, which are built-in exceptions, too.
        return errors.error_class(error.code).__name__.removesuffix("Error")
    return ""


def theirs(bad: Bad, tf) -> tuple[str, bool]:
    """Return the class of TensorFlow's error, and whether its runtime raised it."""
    from graphmill.testing.oracle.tensorflow_oracle import session_config

    graph = tf.Graph()
    try:
        with graph.as_default():
            content = graph_def(bad).SerializeToString()
            tf.import_graph_def(tf.compat.v1.GraphDef.FromString(content), name="")
        with tf.compat.v1.Session(graph=graph, config=session_config()) as session:
            session.run(bad.fetches, bad.feeds)
    except tf.errors.OpError as error:
        return class_of(error), True
    except (ValueError, TypeError, KeyError) as error:
        return class_of(error), False
    return "", True


@pytest.mark.parametrize("name", CASES)
def test_errors_are_of_one_class(name, tf, graphmill_host):
    bad = CASES[name]
    expected, from_runtime = theirs(bad, tf)
    assert expected, "TensorFlow does not mind this"
    if from_runtime:
        assert ours(bad, graphmill_host) == expected
    else:
        assert ours(bad, graphmill_host) in FRONT_END


def test_a_session_is_usable_after_an_error(graphmill_host):
    from graphmill.session.session import Session

    with Session(graph=graph_def(CASES["missing feed"]), host=graphmill_host) as session:
        with pytest.raises(errors.InvalidArgumentError, match="placeholder"):
            session.run("y:0")
        assert session.run("y:0", {"x:0": X}).tolist() == (-X).tolist()
