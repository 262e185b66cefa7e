"""`NpuArray`: a value in the accelerator's memory, which may not have been computed yet.

It implements NumPy's protocols, so generic kernels use `numpy` itself as their namespace: each call
becomes a command in the queue. Such a call may also have NumPy arrays as arguments. `np.asarray` of
an `NpuArray` raises an error, because it would be an implicit copy to the host.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

from graphmill.spi import errors

if TYPE_CHECKING:
    from collections.abc import Callable

    from graphmill_simnpu.device import SimNpuDevice


class NpuArray(NDArrayOperatorsMixin):
    """A value, or a future of one.

    Attributes:
        device: the device that holds it in memory.
    """

    __slots__ = ("__weakref__", "_dtype", "_error", "_is_ready", "_memory", "_value", "device")

    def __init__(self, device: SimNpuDevice, dtype: Any = None) -> None:
        self.device = device
        self._dtype = dtype
        self._is_ready = threading.Event()
        self._value: Any = None
        self._error: Exception | None = None
        self._memory: Any = None

    # ----------------------------------------------------- for the queue

    def keep(self, value: Any) -> None:
        """Store the value in the device's memory."""
        try:
            self._memory = self.device.allocate_memory(value.nbytes)
        except errors.OpError as error:
            self.fail(error)
            return
        self._value = value
        self._is_ready.set()

    def fail(self, error: Exception) -> None:
        """Mark the value as failed; waiters get the error."""
        self._error = error
        self._is_ready.set()

    def get(self) -> Any:
        """Wait for the value and return it.

        Raises:
            OpError: it could not be computed.
        """
        self._is_ready.wait()
        if self._error is not None:
            raise self._error
        return self._value

    def __del__(self) -> None:
        if self._memory is not None:
            self.device.release_memory(self._memory)

    # ----------------------------------------------------- for kernels

    @property
    def dtype(self) -> Any:
        """Element type; waits for the value, except for results of the device's own kernels."""
        return self.get().dtype if self._dtype is None else self._dtype

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape; waits for the value."""
        return self.get().shape  # type: ignore[no-any-return]

    @property
    def ndim(self) -> int:
        """Rank; waits for the value."""
        return self.get().ndim  # type: ignore[no-any-return]

    @property
    def size(self) -> int:
        """Number of elements; waits for the value."""
        return self.get().size  # type: ignore[no-any-return]

    @property
    def nbytes(self) -> int:
        """Size in bytes; waits for the value."""
        return self.get().nbytes  # type: ignore[no-any-return]

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **keywords: Any) -> Any:
        return self.device.launch(getattr(ufunc, method), inputs, keywords)

    def __array_function__(self, function: Any, _: Any, args: Any, keywords: Any) -> Any:
        return self.device.launch(function, args, keywords)

    def __getitem__(self, index: Any) -> Any:
        return self.device.launch(_item, (self, index), {})

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if not callable(getattr(np.ndarray, name, None)):
            return self.device.launch(getattr, (self, name), {})

        def call(*args: Any, **keywords: Any) -> Any:
            return self.device.launch(_method, (self, name, *args), keywords)

        return call

    def __array__(self, *_: Any, **__: Any) -> Any:
        raise errors.InternalError(f"a value of {self.device.name} reached the host without a copy")

    def __bool__(self) -> bool:
        return bool(self.get())

    def __len__(self) -> int:
        return len(self.get())

    def __iter__(self) -> Any:
        return iter([self[index] for index in range(len(self))])

    def __int__(self) -> int:
        return int(self.get())

    def __index__(self) -> int:
        return int(self.get())

    def __float__(self) -> float:
        return float(self.get())


def _item(value: Any, index: Any) -> Any:
    return value[index]


def _method(value: Any, name: str, *args: Any, **keywords: Any) -> Any:
    return getattr(value, name)(*args, **keywords)


def unwrapped(value: Any) -> Any:
    """Return a value with each `NpuArray` replaced by its NumPy array; waits for them."""
    if isinstance(value, NpuArray):
        return value.get()
    if type(value) in (list, tuple):
        return type(value)(unwrapped(item) for item in value)
    if type(value) is dict:
        return {key: unwrapped(item) for key, item in value.items()}
    return value


def mapped(function: Callable[[Any], Any], value: Any) -> Any:
    """Return a result with `function` applied to each array in it."""
    if isinstance(value, (np.ndarray, np.generic)):
        return function(value)
    if isinstance(value, (list, tuple)):
        items = [mapped(function, item) for item in value]
        return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
    return value
