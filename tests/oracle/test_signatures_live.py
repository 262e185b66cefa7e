"""Functions with a name of TensorFlow have its positional arguments, in its order.

Arguments of ours alone come last or are given by keyword. Some of TensorFlow's arguments are
missing here; `LEFT_OUT` says which of these move the arguments after them.
"""

from __future__ import annotations

import inspect

import pytest

import graphmill
from graphmill import data, functions, initializers, losses, summary, train

pytestmark = pytest.mark.oracle
tf = pytest.importorskip("tensorflow")

LEFT_OUT = {
    "FileWriter": "graph_def: deprecated",
    "Iterator": "made by functions of datasets; users do not call its constructor",
    "Optimizer": "update rules are ops here, so subclasses of TensorFlow's class do not apply",
    "argmax": "dimension: deprecated",
    "argmin": "dimension: deprecated",
    "matmul": "output_type, grad_a, grad_b: not offered",
    "moments": "keep_dims: deprecated",
}
"""Which arguments are missing before others and why, by name of the function or class."""

ABSENT = {
    "Graph": {
        "a dict here": ["collections"],
        "an attribute": ["seed"],
        "of Python's layer of TensorFlow alone": [
            *("Dismantle", "building_function", "get", "new_operations", "num_operations"),
            *("op_def_for_type", "operations", "switch_to_thread_local"),
        ],
    },
    "Tensor": {
        "a tensor is hashable itself": ["experimental_ref", "ref"],
        "of Python's layer of TensorFlow alone": ["OVERLOADABLE_OPERATORS"],
        "shapes are inferred": ["set_shape"],
    },
    "Operation": {
        "Graph.location_of has it": ["traceback"],
        "of Python's layer of TensorFlow alone": [
            *("colocation_groups", "experimental_set_type", "from_node_def"),
        ],
    },
    "Variable": {
        "a variable is hashable itself": ["experimental_ref", "ref"],
        "for several replicas": ["aggregation", "synchronization"],
        "without a graph": ["create", "numpy"],
        "not offered": [
            *("SaveSliceInfo", "batch_scatter_update", "read_value_no_copy"),
            *("scatter_nd_max", "scatter_nd_min"),
        ],
    },
    "Session": {},
    "IndexedSlices": {"of Python's layer of TensorFlow alone": ["consumers"]},
    "Saver": {
        "not offered": [
            "recover_last_checkpoints",
        ],
    },
    "Coordinator": {},
    "Optimizer": {},
}
"""The public members of TensorFlow's classes that ours lack, by class and reason."""


def pairs():
    """Yield the name, our function or class, and that of TensorFlow with the same name."""
    v1 = tf.compat.v1
    for ours, theirs in (
        (graphmill, [v1]),
        (functions, [v1, v1.nn, v1.math, v1.random, v1.strings]),
        (train, [v1.train]),
        (losses, [v1.losses]),
        (initializers, [v1.initializers]),
        (summary, [v1.summary]),
        (data, [v1.data]),
    ):
        for name in ours.__all__:
            home = next((module for module in theirs if hasattr(module, name)), None)
            if home is not None and callable(getattr(ours, name)):
                yield name, getattr(ours, name), getattr(home, name)


def positional(function):
    """Return the names of positional arguments; None for `*args` or without a signature."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except ValueError:
        return None
    if any(parameter.kind is parameter.VAR_POSITIONAL for parameter in parameters):
        return None
    return [item.name for item in parameters if item.kind is item.POSITIONAL_OR_KEYWORD]


def same_order(ours, theirs):
    """Return whether our arguments are TensorFlow's first ones, followed only by new ones."""
    shared = [name for name in ours if name in theirs]
    return ours[: len(shared)] == shared == theirs[: len(shared)]


def test_positional_arguments_are_those_of_tensorflow():
    compared, different = set(), set()
    for name, ours, theirs in pairs():
        own, expected = positional(ours), positional(theirs)
        if own is not None and expected is not None:
            compared.add(name)
            if not same_order(own, expected):
                different.add(name)
    assert len(compared) > 150
    assert different == set(LEFT_OUT)


def classes():
    """Return our class and that of TensorFlow by name."""
    v1 = tf.compat.v1
    pairs = {
        name: (getattr(graphmill, name), getattr(v1, name))
        for name in ("Graph", "Tensor", "Session", "IndexedSlices")
    }
    for name in ("Saver", "Coordinator", "Optimizer"):
        pairs[name] = getattr(train, name), getattr(v1.train, name)
    with v1.Graph().as_default():
        variable = v1.Variable(0.0, use_resource=True)
    pairs["Variable"] = graphmill.Variable, type(variable)
    pairs["Operation"] = type(graphmill.Graph().create_op("NoOp")), v1.Operation
    return pairs


@pytest.mark.parametrize("name", ABSENT)
def test_classes_have_the_members_of_tensorflow(name):
    ours, theirs = classes()[name]
    public = {member for member in dir(theirs) if not member.startswith("_")}
    expected = {member for members in ABSENT[name].values() for member in members}
    assert {member for member in public if not hasattr(ours, member)} == expected


def test_same_order_finds_moved_and_inserted_arguments():
    assert same_order(["a", "b", "own"], ["a", "b", "c"])
    assert not same_order(["b", "a"], ["a", "b"])
    assert not same_order(["own", "a"], ["a"])
    assert not same_order(["a", "c"], ["a", "b", "c"])
