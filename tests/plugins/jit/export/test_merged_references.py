"""Conditionals of TensorFlow 1 that return references to variables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import graphmill
from graphmill import errors, ops

jax = pytest.importorskip("jax")
pytestmark = pytest.mark.jax

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(autouse=True)
def with_64_bits() -> Iterator[None]:
    with jax.enable_x64(True):
        yield


def chosen(ref: Any, predicate: Any, true: Any, false: Any) -> Any:
    """Return the reference of `tf.cond` for two functions of a reference."""
    no, yes = ops.control_flow.ref_switch(ref, predicate)
    return ops.control_flow.ref_merge([false(no), true(yes)]).output


def doubled(ref: Any) -> Any:
    return ops.state.assign_add(ref, array_of(ref))


def array_of(ref: Any) -> Any:
    return ops.array.identity(ref)


def check(make: Any, xs: tuple[float, ...] = (2.0, 0.5, -1.0)) -> None:
    """Compare the exported function with the session, for the reference that `make` returns."""
    with graphmill.Graph().as_default() as graph:
        x = graph.placeholder("float32", [], name="x")
        v = graphmill.Variable(1.0, name="v", use_resource=False)
        merged = make(graph.get_tensor_by_name("v:0"), x)
        outputs = {"y": merged * 3.0}
        init = graphmill.global_variables_initializer()
    with graphmill.Session(graph=graph) as session:
        session.run(init)
        function = graphmill.export.convert(session, "jax", {"x": x}, outputs)
        for value in xs:
            session.run(init)
            expected = session.run(outputs, {x: value})["y"], session.run(v)
            found, params = jax.jit(function.update)(function.params, {"x": np.float32(value)})
            assert (found["y"], params["v"]) == expected


def test_both_branches_assign() -> None:
    check(lambda v, x: chosen(v, x > 0.0, lambda r: ops.state.assign_add(r, x), doubled))


def test_a_branch_returns_the_variable_itself() -> None:
    check(lambda v, x: chosen(v, x > 0.0, lambda r: r, doubled))


def test_inner_conditional_is_exported() -> None:
    def outer(v: Any, x: Any) -> Any:
        positive = x > 0.0

        def inner(ref: Any) -> Any:
            large = ops.control_flow.switch(x > 1.0, positive).output_true
            return chosen(ref, large, doubled, lambda r: ops.state.assign_sub(r, array_of(r)))

        return chosen(v, positive, inner, doubled)

    check(outer)


def test_reference_that_is_assigned_again() -> None:
    def twice(v: Any, x: Any) -> Any:
        first = chosen(v, x > 0.0, doubled, lambda r: r)
        return chosen(first, x > 1.0, doubled, lambda r: ops.state.assign_sub(r, array_of(r)))

    check(twice)


def one_of_two(graph: Any, x: Any, use: Any) -> tuple[Any, Any]:
    """Return the variables `v` and `w`, and what `use` makes of references in two branches.

    Args:
        graph: the graph.
        x: `v` is chosen if it is positive.
        use: gets the references to `w` and `v` in their branches, and a function that joins them.
    """
    v = graphmill.Variable(1.0, name="v", use_resource=False)
    w = graphmill.Variable(5.0, name="w", use_resource=False)
    positive = x > 0.0
    sides = [
        ops.control_flow.ref_switch(graph.get_tensor_by_name(f"{name}:0"), positive)
        for name in ("w", "v")
    ]

    def join(no: Any, yes: Any) -> Any:
        return ops.control_flow.ref_merge([no, yes]).output

    return (v, w), use(sides[0].output_false, sides[1].output_true, join)


@pytest.mark.parametrize(
    "use",
    [
        lambda no, yes, join: join(no, yes) * 3.0,
        lambda no, yes, join: join(ops.state.assign_add(no, 2.0), yes) * 3.0,
        lambda no, yes, join: join(no, ops.state.assign_sub(yes, array_of(yes))) * 3.0,
    ],
)
def test_reference_to_one_of_two_variables_that_is_read(use: Any) -> None:
    with graphmill.Graph().as_default() as graph:
        x = graph.placeholder("float32", [], name="x")
        variables, y = one_of_two(graph, x, use)
        init = graphmill.global_variables_initializer()
    with graphmill.Session(graph=graph) as session:
        session.run(init)
        function = graphmill.export.convert(session, "jax", {"x": x}, {"y": y})
        for value in (2.0, -1.0):
            session.run(init)
            expected = session.run(y, {x: value}), session.run(variables)
            found, params = jax.jit(function.update)(function.params, {"x": np.float32(value)})
            assert (found["y"], [params["v"], params["w"]]) == (expected[0], list(expected[1]))


def assigned_later(no: Any, yes: Any, join: Any) -> Any:
    """Read the joined reference after `v` was assigned outside of the branches."""
    merged = join(no, yes)
    v = graphmill.get_default_graph().get_tensor_by_name("v:0")
    with graphmill.get_default_graph().control_dependencies([ops.state.assign_add(v, 1.0)]):
        return merged * 3.0


@pytest.mark.parametrize(
    "use",
    [
        lambda no, yes, join: ops.state.assign_add(join(no, yes), 1.0) * 3.0,
        assigned_later,
    ],
)
def test_reference_to_one_of_two_variables_that_is_assigned_is_refused(use: Any) -> None:
    with graphmill.Graph().as_default() as graph:
        x = graph.placeholder("float32", [], name="x")
        _, y = one_of_two(graph, x, use)
        init = graphmill.global_variables_initializer()
    with graphmill.Session(graph=graph) as session:
        session.run(init)
        problem = r"passes a reference to RefMerge \(Merge\); return the value"
        with pytest.raises(errors.UnimplementedError, match=problem):
            graphmill.export.convert(session, "jax", {"x": x}, {"y": y})
