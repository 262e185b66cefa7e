"""`py_func` and `py_function`: call a published Python function from a graph.

    y = graphmill.py_func("mine.clean", [x], "string")

Semantics: tf.compat.v1.py_func, tensorflow/python/ops/script_ops.py. But the graph refers to the
function by its entry point (`graphmill.plugin.functions`); TensorFlow refers to it by a token that
is only valid in the process that built the graph.
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
        func: name of an entry point in the group "graphmill.functions", or the function that it
            refers to. It takes an array for each input, which it must not modify, and returns
            arrays (or array-likes) of exactly the types `Tout`.
        inp: the inputs.
        Tout: type of the result, or a list of types.
        stateful: whether calls with equal inputs may differ, so that no call may be optimized away.
        name: the node's name.

    Returns:
        A tensor, or a list of tensors if `Tout` is a list.

    Raises:
        InvalidArgumentError: `func` is a function that no entry point publishes.
    """
    add = functional.py_func if stateful else functional.py_func_stateless
    return _call(add, func, inp, Tout, name)


def py_function(
    func: str | Callable[..., Any],
    inp: Sequence[Any],
    Tout: Any,  # noqa: N803 - TensorFlow's name
    name: str | None = None,
) -> Any:
    """Add a node as `py_func` does, but convert results to the types `Tout`.

    Python numbers and arrays are converted as `tf.py_function` does (integers to floats, float64 to
    float32). No gradient flows through the node.

    Args:
        func, inp, Tout, name: as for `py_func`.

    Returns:
        A tensor, or a list of tensors if `Tout` is a list.

    Raises:
        InvalidArgumentError: `func` is a function that no entry point publishes.
    """
    return _call(functional.eager_py_func, func, inp, Tout, name)


def _call(
    add: Callable[..., Any],
    func: str | Callable[..., Any],
    inp: Sequence[Any],
    types: Any,
    name: str | None,
) -> Any:
    """Add a node by `add`; return a list of tensors if `types` is a list, else the only tensor."""
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
        f"{reference} is not published, so a graph cannot refer to it: add the entry point "
        f'NAME = "{reference}" in the group {FUNCTIONS_GROUP!r} to its distribution, and install it'
    )
