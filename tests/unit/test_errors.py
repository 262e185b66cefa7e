"""Status errors (clause S12)."""

from __future__ import annotations

import copy
import pickle
from typing import TYPE_CHECKING

import pytest

from graphmill import errors
from graphmill.graph.builder import Graph
from graphmill.registry import PluginConflictError
from graphmill.testing.proto_builders import node_def

if TYPE_CHECKING:
    from graphmill.graph.node import Node

# Code and class of tensorflow/core/protobuf/error_codes.proto and errors_impl.py.
CODES = {
    1: "CancelledError",
    2: "UnknownError",
    3: "InvalidArgumentError",
    4: "DeadlineExceededError",
    5: "NotFoundError",
    6: "AlreadyExistsError",
    7: "PermissionDeniedError",
    8: "ResourceExhaustedError",
    9: "FailedPreconditionError",
    10: "AbortedError",
    11: "OutOfRangeError",
    12: "UnimplementedError",
    13: "InternalError",
    14: "UnavailableError",
    15: "DataLossError",
    16: "UnauthenticatedError",
}


@pytest.mark.parametrize(("code", "name"), CODES.items())
def test_s12_each_code_has_its_own_class(code: int, name: str) -> None:
    cls = getattr(errors, name)
    assert errors.error_class(code) is cls
    error = cls("what happened")
    assert isinstance(error, errors.OpError)
    assert (error.code, error.error_code) == (code, code)
    assert (error.message, str(error)) == ("what happened", "what happened")


def test_s12_a_code_that_is_none_is_unknown() -> None:
    assert errors.error_class(99) is errors.UnknownError


def test_s12_the_text_names_node_op_device_and_plugin() -> None:
    error = errors.InternalError(
        "broke", node="n", op_type="Neg", device="/device:CPU:0", plugin="p"
    )
    assert str(error) == "broke\n\t [[{{node n}}]] (op Neg, device /device:CPU:0, plugin p)"
    assert error.message == "broke"
    assert str(errors.InternalError("broke", node="n")) == "broke\n\t [[{{node n}}]]"


def test_s12_the_innermost_place_wins() -> None:
    error = errors.InternalError("broke", node="inner", op_type="Neg")
    error.locate(node="outer", op_type="PartitionedCall", device="/device:CPU:0", plugin="p")
    assert (error.node, error.op_type) == ("inner", "Neg")
    assert (error.device, error.plugin) == ("/device:CPU:0", "p")
    assert error.locate(device="/device:CPU:1").device == "/device:CPU:0"


def test_s12_op_alone_is_not_a_location() -> None:
    error = errors.InvalidArgumentError("bad attr", op_type="Neg").locate(node="n", op_type="Other")
    assert (error.node, error.op_type) == ("n", "Neg")


def test_s12_caller_is_the_outermost_node() -> None:
    error = errors.InternalError("broke").locate(node="inner", op_type="Neg")
    assert error.caller is None
    error.locate(node="call", op_type="PartitionedCall").locate(node="outer", op_type="While")
    assert (error.node, error.op_type, error.caller) == ("inner", "Neg", "outer")


@pytest.mark.parametrize(
    "make",
    [
        lambda: errors.InternalError("broke", node="n", op="Neg"),
        lambda: errors.InternalError("broke").locate(node="n", op="Neg"),
    ],
)
def test_s12_old_argument_op_is_the_type_and_warns(make) -> None:
    with pytest.warns(DeprecationWarning, match="op_type") as caught:
        error = make()
    assert (error.node, error.op_type, error.op) == ("n", "Neg", None)
    assert caught[0].filename == __file__


def test_s12_text_assigned_to_op_is_the_type_and_warns() -> None:
    error = errors.InternalError("broke", node="n")
    with pytest.warns(DeprecationWarning, match="op_type") as caught:
        error.op = "Neg"
    assert (error.op_type, error.op) == ("Neg", None)
    assert caught[0].filename == __file__


def test_s12_op_may_be_found_when_it_is_requested() -> None:
    graph = Graph()
    node = graph.placeholder("float32", [], name="x").op
    calls = []

    def find() -> Node:
        calls.append(1)
        return node

    error = errors.InternalError("broke")
    error.op = find
    assert not calls
    assert error.op is error.op is node
    assert calls == [1]
    assert copy.copy(error).op is node
    assert pickle.loads(pickle.dumps(error)).op is None


def test_s12_node_def_is_made_when_it_is_requested() -> None:
    made = []

    def make() -> object:
        made.append(1)
        return node_def("n", "Neg", "x", T="float32")

    error = errors.InternalError("broke").locate(node="n", op_type="Neg", node_def=make)
    assert not made
    assert error.node_def.name == error.node_def.name == "n"
    assert made == [1]


@pytest.mark.parametrize("again", [copy.copy, lambda e: pickle.loads(pickle.dumps(e))])
def test_s12_an_error_can_be_sent_elsewhere(again) -> None:
    node = node_def("n", "Neg", "x", T="float32")
    error = errors.InvalidArgumentError("broke").locate(
        node="n", op_type="Neg", device="/cpu:0", node_def=lambda: node
    )
    error.is_derived = True
    sent = again(error)
    assert type(sent) is errors.InvalidArgumentError
    assert (str(sent), sent.node_def, sent.is_derived) == (str(error), node, True)
    assert sent.args == error.args


def test_s12_error_with_custom_constructor_can_be_pickled() -> None:
    error = PluginConflictError("two", owners=())
    sent = pickle.loads(pickle.dumps(error))
    assert (type(sent), sent.message, sent.owners) == (PluginConflictError, "two", ())


@pytest.mark.parametrize(
    ("name", "candidates", "text"),
    [
        ("Matmul", ["MatMul", "Neg"], "; did you mean 'MatMul'?"),
        ("addv", ["AddV2", "Add", "AddN"], "; did you mean 'AddN' or 'Add' or 'AddV2'?"),
        ("zzz", ["MatMul"], ""),
        ("x", [], ""),
    ],
)
def test_s12_near_matches_are_suggested(name: str, candidates: list[str], text: str) -> None:
    found = errors.suggest(name, candidates)
    assert sorted(found.split("'")) == sorted(text.split("'"))


def test_s12_near_matches_among_many_names_are_fast() -> None:
    names = [f"resnet/block{i % 5}/unit_{i % 17}/weights_{i}/read" for i in range(50_000)]
    text = errors.suggest("resnet/block2/unit_12/weights_45997/raed", names)
    assert "'resnet/block2/unit_12/weights_45997/read'" in text


def test_s12_an_error_takes_the_positional_arguments_of_tensorflow() -> None:
    made = node_def("x", "Neg")
    error = errors.OutOfRangeError(made, None, "end of input")
    assert (str(error), error.message, error.args) == ("end of input",) * 2 + (("end of input",),)
    assert (error.node_def, error.op) == (made, None)
    assert pickle.loads(pickle.dumps(error)).message == "end of input"


@pytest.mark.parametrize("arguments", [("a", "b"), (None, None, "c", "d")])
def test_s12_other_numbers_of_positional_arguments_are_refused(arguments: tuple[str, ...]) -> None:
    with pytest.raises(TypeError, match="takes message, or node_def, op and message"):
        errors.InternalError(*arguments)


def test_names_of_other_lengths_are_not_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    """Names of other lengths are skipped, because a table may have a million columns."""
    compared: list[str] = []

    def shared(one: str, other: str) -> int:
        compared.append(other)
        return 0

    monkeypatch.setattr(errors, "_shared_ends", shared)
    names = [f"column[{index:06}]" for index in range(1_000)]
    assert errors.suggest("age", [*names, "ages"]) == "; did you mean 'ages'?"
    assert compared == []
