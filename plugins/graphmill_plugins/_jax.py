"""Import JAX when the first device or program needs it; base class of JAX devices.

TensorFlow graphs contain many 64-bit numbers, so all calls use JAX's 64-bit mode. It is enabled
only for the current thread and only during each call, so that an application's own use of JAX is
not affected. The options of the application do not affect graphs either; see `own_options`.

JAX does not survive a fork: its threads do not exist in the child, so calls may wait for them
forever. So this package never calls JAX in a child if the parent process had started it.
"""

from __future__ import annotations

import importlib
import sys
from contextlib import AbstractContextManager, ExitStack
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NoReturn
from weakref import WeakValueDictionary

import numpy as np

from graphmill.errors import FailedPreconditionError, InvalidArgumentError
from graphmill.spi import Device, DeviceAttributes
from graphmill.spi.process import (
    JAX_DISPATCH,
    deferred_forks,
    never_destroy,
    track_forks,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from graphmill.spi import ArrayNamespace, OpKernel, Value


INHERITED: Final = (
    "JAX was started before this process was forked, and does not work in the child of a fork"
)


class _JaxInProcess:
    """The state of JAX in this process: whether it was started, and by which process.

    Attributes:
        is_used: whether graphmill has imported JAX.
        is_inherited: whether this process was forked from one that had started JAX.
    """

    def __init__(self) -> None:
        self.is_used = False
        self.is_inherited = False
        track_forks(self)

    def after_fork_in_child(self) -> None:
        """Record whether the parent had started JAX, and let the child exit cleanly.

        When the interpreter shuts down, it would destroy JAX's clients, which wait for threads that
        the child does not have.
        """
        bridge = sys.modules.get("jax._src.xla_bridge")
        clients = list(getattr(bridge, "_backends", {}).values())
        for client in clients:
            never_destroy(client)
        self.is_inherited = self.is_inherited or self.is_used or bool(clients)


JAX: Final = _JaxInProcess()


def jax_module() -> Any:
    """Return the module `jax`; import it at the first call.

    Raises:
        FailedPreconditionError: this process was forked from one that had started JAX.
        UnimplementedError: JAX is not installed.
    """
    if JAX.is_inherited:
        raise_inherited()
    if not JAX.is_used:
        from graphmill_plugins._optional import import_optional  # needed once

        with deferred_forks():
            import_optional("jax")
            JAX.is_used = True
    return sys.modules["jax"]


def raise_inherited(*_: object, **__: object) -> NoReturn:
    """Raise the error for calls to JAX in a forked child, with any arguments.

    Raises:
        FailedPreconditionError: always.
    """
    raise FailedPreconditionError(
        f"{INHERITED}; start worker processes with multiprocessing's 'spawn' or 'forkserver', or "
        "do not run anything on JAX in the parent before the fork"
    )


_PROMOTION: Final = {"numpy_rank_promotion": "allow", "numpy_dtype_promotion": "standard"}
_OPTIONS: Final = {
    **_PROMOTION,
    "debug_nans": False,
    "debug_infs": False,
    "disable_jit": False,
    "transfer_guard_host_to_device": "allow",
    "transfer_guard_device_to_host": "allow",
}
"""JAX's options that change how graphs run; `jax` has a context manager of each name."""


def own_options() -> Callable[[], AbstractContextManager[object]]:
    """Return a function that returns contexts for calls to JAX.

    In them, the options of JAX have the values that graphs need, whatever the application has set:
    64-bit numbers, NumPy's broadcasting and promotion, NaN and inf as values. Only 64-bit mode is
    set if nothing else is needed, as each option takes a microsecond of each step.
    """
    jax = jax_module()
    config = jax.config
    others = {
        name: value
        for name, value in _OPTIONS.items()
        if getattr(config, f"jax_{name}") not in (None, value)
    }
    if config.jax_transfer_guard not in (None, "allow"):  # it sets the guards of all directions
        others |= {name: "allow" for name in _OPTIONS if name.startswith("transfer_guard")}
    if not others:
        return partial(jax.enable_x64, True)
    return partial(_contexts, {"enable_x64": True, **others})


def numpy_promotion() -> AbstractContextManager[object]:
    """Return a context in which JAX broadcasts and promotes types as NumPy does."""
    return _contexts(_PROMOTION)


def _contexts(options: Mapping[str, object]) -> ExitStack:
    jax = jax_module()
    stack = ExitStack()
    for name, value in options.items():
        stack.enter_context(getattr(jax, name)(value))
    return stack


def cpu_devices() -> list[Any]:
    """Return JAX's CPU devices; they compute in the caller's thread if JAX starts here.

    By default JAX dispatches each call to another thread, for which the caller waits. This costs
    more than most steps. JAX reads the option only when it starts, so nothing changes if the
    application has used JAX before.
    """
    from graphmill.spi.process import INTRA_OP  # needed once

    jax = jax_module()
    if not JAX_DISPATCH.is_enabled:
        with INTRA_OP.of_xla():
            return list(jax.devices("cpu"))
    option = "jax_cpu_enable_async_dispatch"
    before = jax.config.read(option)
    jax.config.update(option, False)
    try:
        with INTRA_OP.of_xla():
            return list(jax.devices("cpu"))
    finally:
        jax.config.update(option, before)


def platform_devices(platform: str) -> list[Any]:
    """Return JAX's devices of a platform; none if JAX has no such platform here."""
    try:
        return cpu_devices() if platform == "cpu" else list(jax_module().devices(platform))
    except RuntimeError:  # JAX cannot start the platform
        return []


class _StartedResults:
    """The results of a device whose computation may not have ended.

    It does not keep them alive. A result that nobody holds any more was an input of a later
    computation, whose result is here too, or is not needed.
    """

    def __init__(self) -> None:
        self._arrays: WeakValueDictionary[int, Any] = WeakValueDictionary()
        self._type = jax_module().Array

    def add(self, result: Any) -> None:
        """Add the results of a kernel or program: an array or a sequence; others are ignored."""
        for array in result if isinstance(result, (tuple, list)) else (result,):
            if isinstance(array, self._type):
                self._arrays[id(array)] = array

    def wait(self) -> None:
        """Wait until all are computed, also after a failure.

        Raises:
            jax.errors.JaxRuntimeError: a computation failed; the first one that did.
        """
        errors = []
        for reference in self._arrays.valuerefs():
            array = reference()
            if array is None:
                continue
            self._arrays.pop(id(array), None)
            try:
                if not array.is_deleted():  # donated to a later computation, which is here too
                    array.block_until_ready()
            except sys.modules["jax"].errors.JaxRuntimeError as error:
                errors.append(error)
        if errors:
            raise errors[0]


class _Uploads:
    """Copies NumPy arrays to a device.

    `jax.device_put` takes 0.1 ms, as long as a small program. So arrays of a shape and dtype that
    are copied often pass through a compiled identity function, which takes 10 us.
    """

    _OFTEN: Final = 8
    """The number of copies after which to compile; this takes as long as 100 `device_put` calls."""

    _MAX_SHAPES: Final = 256

    def __init__(self, jax_device: Any) -> None:
        jax = jax_module()
        self._jax = jax
        self._device = jax_device
        self._sharding = jax.sharding.SingleDeviceSharding(jax_device)
        self._counts: dict[Any, int] = {}
        self._programs: dict[Any, Callable[..., Any]] = {}

    def copy(self, value: Value) -> Any:
        """Return a copy of an array on the device; call it in 64-bit mode.

        The value is copied first, as JAX may share aligned memory, or read it after the call.
        """
        array = np.array(value)
        program = self._programs.get((array.shape, array.dtype))
        if program is not None:
            return program(array)
        self._count(array)
        return self._jax.device_put(array, self._device)

    def _count(self, array: np.ndarray[Any, Any]) -> None:
        key = array.shape, array.dtype
        count = self._counts.get(key, 0) + 1
        if count >= self._OFTEN:
            self._programs[key] = self._identity(array)
        elif count > 1 or len(self._counts) < self._MAX_SHAPES:
            self._counts[key] = count

    def _identity(self, array: np.ndarray[Any, Any]) -> Callable[..., Any]:
        jax = self._jax
        form = jax.ShapeDtypeStruct(array.shape, array.dtype, sharding=self._sharding)
        compiled: Callable[..., Any] = jax.jit(lambda x: x, donate_argnums=0).lower(form).compile()
        return compiled


class JaxDevice(Device):
    """A JAX device. Its values are JAX arrays; NumPy arrays from kernels are accepted too.

    JAX computes asynchronously: kernels return before their values are computed; `to_host` and
    `sync` wait for them.

    Attributes:
        jax_device: JAX's device object.
        started: the results that `sync` waits for; callers of compiled programs add theirs.
    """

    backends = ("jax",)
    observes_kernels = False  # programs are compiled for the device, and called in 64-bit mode

    def __init__(self, attributes: DeviceAttributes, jax_device: Any) -> None:
        super().__init__(attributes)
        jax = jax_module()
        self.jax_device = jax_device
        self.started = _StartedResults()
        self._numpy: ArrayNamespace = importlib.import_module("jax.numpy")
        self._array = jax.Array
        self._uploads = _Uploads(jax_device)
        self._options = own_options()
        self._default_device = jax.default_device

    def namespace(self, backend: str) -> ArrayNamespace:
        """Return `jax.numpy`, the only backend.

        Raises:
            InvalidArgumentError: `backend` is another one.
        """
        if backend != "jax":
            raise InvalidArgumentError(f"device {self.name} runs backend jax, not {backend!r}")
        return self._numpy

    def to_device(self, value: Value) -> Value:
        """Return a host value as a new array on this device."""
        with self._options():
            return self._uploads.copy(value)

    def to_host(self, value: Value) -> Value:
        """Wait for a value; return it as a NumPy array, or as a scalar for rank 0."""
        array = np.asarray(value)
        return array if array.ndim else array[()]

    def compute_of(self, kernel: OpKernel) -> Callable[..., Any]:
        """Return the kernel's function, called in 64-bit mode on this device."""
        compute = kernel.compute
        if kernel.definition.host:
            return compute
        default_device, device, started = self._default_device, self.jax_device, self.started

        def call(*inputs: Any, **keywords: Any) -> Any:
            with self._options(), default_device(device):
                result = compute(*inputs, **keywords)
            started.add(result)
            return result

        return call

    def after_fork_in_child(self) -> None:
        """Make further computations raise; existing results can still be read."""
        if JAX.is_inherited:
            self._options = raise_inherited

    def sync(self) -> None:
        """Wait until all work on the device is done.

        Raises:
            jax.errors.JaxRuntimeError: a computation failed after its kernel had returned.
        """
        self.started.wait()
        jax_module().effects_barrier()
