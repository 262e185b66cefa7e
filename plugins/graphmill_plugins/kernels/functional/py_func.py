"""PyFunc and similar: call a Python function published by an installed distribution.

Semantics: `DoCallPyFunc` and `PyFuncOp` in tensorflow/python/lib/core/py_func.cc, for EagerPyFunc
`EagerFunc` in tensorflow/python/ops/script_ops.py. Exceptions become the same status codes as in
TensorFlow. The token is the name of an entry point, see `graphmill.plugin.functions`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from graphmill.errors import (
    InvalidArgumentError,
    OpError,
    OutOfRangeError,
    ResourceExhaustedError,
    UnimplementedError,
    UnknownError,
)
from graphmill.spi import kernel
from graphmill.spi.kernels import load_function

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from graphmill.spi import Value

_CLASSES: Final[tuple[tuple[Any, type[OpError]], ...]] = (
    ((ValueError, TypeError), InvalidArgumentError),
    (StopIteration, OutOfRangeError),
    (MemoryError, ResourceExhaustedError),
    (NotImplementedError, UnimplementedError),
)


@kernel("PyFunc", "PyFuncStateless", make=True, host=True, waits=True, effects={"python"})
def py_func(token: str, Tout: Sequence[Any]) -> Callable[[list[Value]], tuple[Value, ...]]:
    """Call the function published as `token` with read-only NumPy arrays."""
    return _caller(token, Tout, converts=False)


@kernel("EagerPyFunc", make=True, host=True, waits=True, effects={"python"})
def eager_py_func(token: str, Tout: Sequence[Any]) -> Callable[[list[Value]], tuple[Value, ...]]:
    """Call the function published as `token`; convert its results to the types of the graph."""
    return _caller(token, Tout, converts=True)


def _caller(
    token: str, types: Sequence[Any], *, converts: bool
) -> Callable[[list[Value]], tuple[Value, ...]]:
    function = load_function(token)
    expected = [np.dtype(dtype) for dtype in types]

    def call(inputs: list[Value]) -> tuple[Value, ...]:
        result = _called(function, token, [_read_only(value) for value in inputs])
        results = _as_list(result)
        if len(results) != len(expected):
            raise InvalidArgumentError(
                f"{token} returns {len(results)} values, but expects to see {len(expected)} values."
            )
        for index, (value, dtype) in enumerate(zip(results, expected, strict=True)):
            if value.dtype == dtype:
                continue
            if converts and _fits(value.dtype, dtype):
                results[index] = value.astype(dtype)
                continue
            raise InvalidArgumentError(
                f"{index}-th value returned by {token} is {_name(value.dtype)}, but expects "
                f"{_name(dtype)}"
            )
        return tuple(results)

    return call


def _fits(source: np.dtype[Any], target: np.dtype[Any]) -> bool:
    is_text = "O" in (source.kind, target.kind)
    return not is_text and np.can_cast(source, target, "same_kind")


def _called(function: Callable[..., Any], token: str, arrays: list[Any]) -> Any:
    try:
        return function(*arrays)
    except OpError:
        raise
    except Exception as error:
        status = next((s for raised, s in _CLASSES if isinstance(error, raised)), UnknownError)
        text = f"{type(error).__name__}: {error}".rstrip(": ")
        raise status(f"the function {token!r} raised {text}") from error


def _read_only(value: Any) -> Any:
    """Return a read-only view, because other nodes may use the same array."""
    view = np.asarray(value).view()
    view.flags.writeable = False
    return view


def _as_list(result: Any) -> list[Any]:
    if result is None:
        return []
    values = result if isinstance(result, (list, tuple)) else [result]
    return [_as_array(value) for value in values]


def _as_array(value: Any) -> Any:
    """Convert a result to an array; strings become an object array of bytes."""
    array = np.asarray(value)
    if array.dtype.kind not in "US":
        return array
    objects = np.asarray(value, object)  # NumPy's string dtypes strip trailing null bytes
    encoded = np.empty(objects.size, object)
    encoded[:] = [v.encode() if isinstance(v, str) else v for v in objects.ravel().tolist()]
    return encoded.reshape(objects.shape)


def _name(dtype: Any) -> str:
    return "string" if dtype.kind == "O" else str(dtype.name)
