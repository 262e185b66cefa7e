"""`TorchArray`: a PyTorch tensor with a NumPy dtype.

graphmill's executors check the dtypes of kernel results, and kernels of other plugins compute with
NumPy. On a CPU, NumPy and PyTorch share the memory; on an accelerator, NumPy computes on copies.
"""

from __future__ import annotations

from typing import Any, Final

import ml_dtypes
import numpy as np
import torch
from numpy.lib.mixins import NDArrayOperatorsMixin

_BFLOAT16: Final = np.dtype(ml_dtypes.bfloat16)
_TO_TORCH: Final = {
    np.dtype(name): getattr(torch, name)
    for name in (
        *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
        *("float16", "float32", "float64", "complex64", "complex128"),
    )
} | {_BFLOAT16: torch.bfloat16}
_TO_NUMPY: Final = {value: key for key, value in _TO_TORCH.items()}


class TorchArray(NDArrayOperatorsMixin):
    """A value of a device.

    Attributes:
        tensor: the PyTorch tensor.
        dtype: its NumPy dtype.
    """

    __slots__ = ("dtype", "tensor")

    def __init__(self, tensor: torch.Tensor) -> None:
        self.tensor = tensor
        self.dtype = _TO_NUMPY[tensor.dtype]

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape."""
        return tuple(self.tensor.shape)

    @property
    def ndim(self) -> int:
        """The rank."""
        return int(self.tensor.ndim)

    @property
    def size(self) -> int:
        """The number of elements."""
        return int(self.tensor.numel())

    @property
    def nbytes(self) -> int:
        """The size in bytes."""
        return int(self.tensor.nbytes)

    def numpy(self) -> Any:
        """Return the values as a NumPy array; a view if they are in host memory."""
        tensor = self.tensor.detach().resolve_conj().resolve_neg().cpu()
        if tensor.dtype is torch.bfloat16:
            return tensor.view(torch.int16).numpy().view(_BFLOAT16)
        return tensor.numpy()

    def __array_namespace__(self, api_version: str | None = None) -> Any:
        """Return NumPy, whose functions take these arrays."""
        del api_version
        return np

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        array = self.numpy()
        if dtype is not None and array.dtype != dtype:
            return array.astype(dtype)
        return array.copy() if copy else array

    @property
    def at(self) -> _At:
        """Return the indexed-update helper, as JAX arrays have: `x.at[index].add(y)`."""
        return _At(self)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **keywords: Any) -> Any:
        return _wrapped_like(
            self, getattr(ufunc, method)(*unwrapped(inputs), **unwrapped(keywords))
        )

    def __array_function__(self, function: Any, _: Any, args: Any, keywords: Any) -> Any:
        return _wrapped_like(self, function(*unwrapped(args), **unwrapped(keywords)))

    def __getitem__(self, index: Any) -> Any:
        return _wrapped_like(self, self.numpy()[unwrapped(index)])

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        member = getattr(self.numpy(), name)
        if not callable(member):
            return _wrapped_like(self, member)
        return lambda *args, **kw: _wrapped_like(self, member(*unwrapped(args), **unwrapped(kw)))

    def __bool__(self) -> bool:
        return bool(self.tensor)

    def __len__(self) -> int:
        return len(self.tensor)

    def __iter__(self) -> Any:
        return iter([self[index] for index in range(len(self))])

    def __int__(self) -> int:
        return int(self.tensor)

    def __index__(self) -> int:
        return int(self.tensor)

    def __complex__(self) -> complex:
        return complex(self.tensor.item())

    def __float__(self) -> float:
        return float(self.tensor)


class _At:
    """Updates parts of a copy of an array, as JAX's `x.at[index]`."""

    def __init__(self, array: TorchArray) -> None:
        self._array = array
        self._index: Any = ()

    def __getitem__(self, index: Any) -> _At:
        indexed = _At(self._array)
        indexed._index = unwrapped(index)
        return indexed

    def set(self, values: Any, **_: Any) -> Any:
        """Return a copy of the array with values assigned at the index."""
        updated = self._array.numpy().copy()
        updated[self._index] = unwrapped(values)
        return _wrapped_like(self._array, updated)

    def __getattr__(self, name: str) -> Any:
        ufunc = _UPDATES.get(name)
        if ufunc is None:
            raise AttributeError(name)

        def update(values: Any, **_: Any) -> Any:
            updated = self._array.numpy().copy()
            ufunc.at(updated, self._index, unwrapped(values))
            return _wrapped_like(self._array, updated)

        return update


_UPDATES: Final = {
    "add": np.add,
    "subtract": np.subtract,
    "multiply": np.multiply,
    "mul": np.multiply,
    "divide": np.divide,
    "min": np.minimum,
    "max": np.maximum,
    "power": np.power,
}


def is_known(dtype: Any) -> bool:
    """Return whether PyTorch has an element type for a NumPy dtype."""
    return dtype in _TO_TORCH


def from_numpy(value: Any, where: torch.device) -> Any:
    """Convert a host value to a device value; dtypes that PyTorch lacks are left unchanged.

    The memory is shared if possible; the caller must copy first if the memory may be written to.
    """
    array = np.asarray(value)
    if array.dtype not in _TO_TORCH:
        return value
    if not array.flags.writeable or any(stride < 0 for stride in array.strides):
        array = array.copy()
    if array.dtype == _BFLOAT16:
        return TorchArray(torch.from_numpy(array.view(np.int16)).view(torch.bfloat16).to(where))
    return TorchArray(torch.from_numpy(array).to(where))


def torch_dtype(dtype: Any) -> torch.dtype:
    """Return PyTorch's element type for NumPy's."""
    return _TO_TORCH[np.dtype(dtype)]


def unwrapped(value: Any) -> Any:
    """Return a value with device arrays replaced by NumPy arrays."""
    if isinstance(value, TorchArray):
        return value.numpy()
    if type(value) in (list, tuple):
        return type(value)(unwrapped(item) for item in value)
    if type(value) is dict:
        return {key: unwrapped(item) for key, item in value.items()}
    return value


def wrapped(value: Any, where: torch.device) -> Any:
    """Return a result with NumPy arrays replaced by device arrays."""
    if isinstance(value, (np.ndarray, np.generic)):
        return from_numpy(value, where)
    if isinstance(value, (list, tuple)):
        items = [wrapped(item, where) for item in value]
        return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
    return value


def _wrapped_like(array: TorchArray, value: Any) -> Any:
    return wrapped(value, array.tensor.device)
