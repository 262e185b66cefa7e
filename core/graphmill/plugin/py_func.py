"""`py_func`: call a published Python function from a graph.

    y = graphmill.py_func("mine.clean", [x], "string")

Semantics: tf.compat.v1.py_func, tensorflow/python/ops/script_ops.py; but the function is named by
its entry point (`graphmill.plugin.functions`), where TensorFlow numbers it and can only run the
graph in the process that built it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graphmill.errors import InvalidArgumentError
from graphmill.ops import functional
from graphmill.plugin.functions import FUNCTIONS_GROUP, published_functions

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


def py_func(
    func: str | Callable[..., Any],
    inp: Sequence[Any],
    Tout: Any,  # noqa: N803 - TensorFlow's name
    stateful: bool = True,
    name: str | None = None,
) -> Any:
    """Add a node that calls a Python function with NumPy arrays.

    Args:
        func: the name of an entry point of the group "graphmill.functions", or the function that
            one names. It takes as many arrays as there are inputs, which it must not change, and
            returns arrays (or what NumPy makes one of) of just the types `Tout`.
        inp: the inputs.
        Tout: type of the result, or a list of types.
        stateful: whether two calls with equal inputs may differ, so that none is left out.
        name: the node's name.

    Returns:
        A tensor, or a list of tensors if `Tout` is a list.

    Raises:
        InvalidArgumentError: a function is given that nobody publishes.
    """
    add = functional.py_func if stateful else functional.py_func_stateless
    return _call(add, func, inp, Tout, name)


def py_function(
    func: str | Callable[..., Any],
    inp: Sequence[Any],
    Tout: Any,  # noqa: N803 - TensorFlow's name
    name: str | None = None,
) -> Any:
    """Add a node as `py_func` does, whose results need not be of just the types `Tout`.

    Python numbers and arrays of a lesser kind (integers for floats, float64 for float32) are
    converted, as `tf.py_function` does. No gradient goes through it.

    Args:
        func, inp, Tout, name: as for `py_func`.

    Returns:
        A tensor, or a list of tensors if `Tout` is a list.

    Raises:
        InvalidArgumentError: a function is given that nobody publishes.
    """
    return _call(functional.eager_py_func, func, inp, Tout, name)


def _call(
    add: Callable[..., Any],
    func: str | Callable[..., Any],
    inp: Sequence[Any],
    types: Any,
    name: str | None,
) -> Any:
    """Add a node by `add`; return a list of tensors if `types` is one, else the only tensor."""
    token = func if isinstance(func, str) else _published_name(func)
    is_list = isinstance(types, (list, tuple))
    results = add(list(inp), token=token, Tout=list(types) if is_list else [types], name=name)
    return results if is_list else results[0]


def _published_name(func: Callable[..., Any]) -> str:
    reference = f"{func.__module__}:{func.__qualname__}"
    for candidate in published_functions():
        if candidate.module.replace(" ", "") == reference:
            return candidate.name
    raise InvalidArgumentError(
        f"{reference} is not published, so a graph cannot name it: give its distribution the entry "
        f'point NAME = "{reference}" in the group {FUNCTIONS_GROUP!r}, and install it'
    )
