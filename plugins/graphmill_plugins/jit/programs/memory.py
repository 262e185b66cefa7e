"""Move values between a device's memory and compiled programs.

On devices with host memory, values are NumPy arrays, whose memory a program shares if possible
(`HostMemory`). On JAX's devices they already are JAX arrays (`DeviceMemory`), so nothing is copied
and nothing blocks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from graphmill.spi.compilers import (
    ALIGNMENT,
    TransferredMemory,
    aligned_empty,
    forms_of,
    is_sole_holder,
    register_form,
    set_forms,
    set_value,
    value_of,
)
from graphmill_plugins._jax import JaxDevice, cpu_devices, jax_module, own_options
from graphmill_plugins.jit.programs.buffer_cache import array_behind, remember_array

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphmill.spi import Device, Variable

COPIED_LATER: Final = 100 << 10
"""Size in bytes from which JAX copies unaligned arrays in the background."""


def aligned(value: Any) -> Any:
    """Return a large array aligned for JAX, copied only if necessary.

    JAX would copy it in the background and then also compute in another thread. Large blocks of
    that thread's memory are returned to the system after each step.
    """
    if value.nbytes < COPIED_LATER:
        return value
    if value.flags.c_contiguous and not value.__array_interface__["data"][0] % ALIGNMENT:
        return value
    copy = aligned_empty(value.shape, value.dtype)
    copy[...] = value
    return copy


class UninitializedVariableError(Exception):
    """A variable has no value."""


class HostMemory:
    """Host memory, where JAX's CPU device computes.

    Attributes:
        jax_device: the JAX device that runs the programs.
        platform: JAX's name for the kind of that device.
    """

    def __init__(self, jax_device: Any) -> None:
        self.jax_device = jax_device
        self.platform: str = jax_device.platform
        self._devices = {jax_device}
        self._put = jax_module().device_put
        self._options = own_options()
        with self._options():
            self._form = type(self._put(np.zeros((), np.float32), jax_device))
        register_form(self._form, np.asarray)

    def check_program(self, program: Any) -> None:
        """Check that the allocations of a program are within the memory budget.

        Args:
            program: a `jax.stages.Compiled`.

        Raises:
            ResourceExhaustedError: its results and temporaries are larger than the budget.
        """
        sizes = program.memory_analysis()
        if sizes is None:
            return
        nbytes = sizes.output_size_in_bytes + sizes.temp_size_in_bytes - sizes.alias_size_in_bytes
        self.check_bytes(nbytes)

    def check_bytes(self, nbytes: int) -> None:
        """Check that the results and temporaries of a program are within the memory budget.

        Raises:
            ResourceExhaustedError: they are larger than the budget.
        """
        from graphmill.spi.kernels import request_memory  # here: first runs import this module

        request_memory(nbytes, "the program needs memory for results and temporaries")

    def note_started(self, outputs: Sequence[Any]) -> None:
        """Note the outputs of a program that may not have ended yet."""

    def as_argument(self, value: Any) -> Any:
        """Return an input in the form that the program takes.

        For the whole result of a program, that is the JAX array which it shows: JAX takes eight
        times as long for an argument that is a NumPy array.
        """
        base = value.base
        if type(base) is memoryview and self._shows_whole(value, base.obj):
            return base.obj
        return aligned(value)

    def as_separate_argument(self, value: Any) -> Any:
        """Return an input in a form that may be passed beside the donated array that it views.

        JAX accepts no array that is also donated. A NumPy view of it makes JAX copy it instead.
        """
        return aligned(value)

    def _shows_whole(self, value: Any, array: Any) -> bool:
        """Return whether a value views all elements, in order, of a JAX array on these devices."""
        sharding = getattr(array, "sharding", None)
        return (
            sharding is not None
            and sharding.device_set == self._devices
            and array.shape == value.shape
            and array.dtype == value.dtype
            and bool(value.flags.c_contiguous)
        )

    def arrays_of(self, variables: Sequence[Variable], *, is_locked: bool) -> list[Any]:
        """Return the values of variables as JAX arrays.

        Args:
            variables: the variables.
            is_locked: whether the caller holds their locks.

        Raises:
            UninitializedVariableError: one has no value.
        """
        return [
            self.array_of(variable, is_locked=is_locked) if array is None else array
            for variable, array in zip(variables, forms_of(variables, self._form), strict=True)
        ]

    def array_of(self, variable: Variable, *, is_locked: bool) -> Any:
        """Return the value of a variable as a JAX array, which is created once and then shared.

        The variable's value becomes a view of that array, so that there is only one copy. If
        another thread holds the variable's lock, there are two copies until the next call.

        Args:
            variable: a variable that does not hold an array.
            is_locked: whether the caller holds its lock.

        Raises:
            UninitializedVariableError: it has no value.
        """
        value = variable.value
        if value is None:
            raise UninitializedVariableError
        array = array_behind(variable, value)
        if array is not None:
            return array
        with self._options():
            array = self._put(value, self.jax_device)
        if is_locked:
            self.replace(variable, self.as_value(array), array)
        elif variable.lock.acquire(blocking=False):  # fails for variables that the caller locked
            try:
                if variable.value is value:
                    self.replace(variable, self.as_value(array), array)
            finally:
                variable.lock.release()
        return array

    def holds_array_alone(self, variable: Variable, array: Any) -> bool:
        """Return whether an acquired variable is the only holder of an array."""
        return _is_behind(array, variable) and is_sole_holder(variable)

    def donatable_copy(self, array: Any) -> Any:
        """Return a copy that can be donated while others hold the original.

        It is the array itself, as JAX copies a donated array if a NumPy view of it exists.
        """
        return array

    def as_value(self, array: Any) -> Any:
        """Return a JAX array as a value; raise JAX's error if it could not be computed."""
        return np.asarray(array)

    def as_donatable_value(self, array: Any) -> Any:
        """Return a JAX array as a value whose memory can be donated later.

        Raises JAX's error if it could not be computed.
        """
        array.block_until_ready()  # in an application that used JAX first, it may not have ended
        return np.asarray(
            TransferredMemory(
                array, array.unsafe_buffer_pointer(), array.shape, np.dtype(array.dtype)
            )
        )

    def as_constant_value(self, value: Any) -> Any:
        """Return a result that does not depend on the inputs."""
        return value

    def replace(self, variable: Variable, value: Any, array: Any) -> None:
        """Set the value of a variable, acquired or not, to the value of an array."""
        set_value(variable, value)
        remember_array(variable, value, array)

    def replace_all(self, variables: Sequence[Variable], arrays: Sequence[Any]) -> None:
        """Set the values of variables, none of them acquired, to those of a program's outputs.

        Raises JAX's error if they could not be computed; then nothing has changed.
        """
        if arrays:
            arrays[0].block_until_ready()  # a program's outputs are ready together
            set_forms(variables, arrays)


def _is_behind(array: Any, variable: Variable) -> bool:
    """Return whether the value of an acquired variable is the view of an array."""
    value = value_of(variable)
    base = value.base
    return array_behind(variable, value) is array or (
        type(base) is memoryview and base.obj is array
    )


class DeviceMemory(HostMemory):
    """The memory of a JAX device of the session."""

    def __init__(self, device: JaxDevice) -> None:
        super().__init__(device.jax_device)
        self._started = device.started

    def check_program(self, program: Any) -> None:
        """Check nothing: the budget is for host memory, and the device's allocator has a limit."""

    def check_bytes(self, nbytes: int) -> None:
        """Check nothing, for the same reason."""

    def note_started(self, outputs: Sequence[Any]) -> None:
        """Note the outputs of a program; the end of the step waits for them."""
        self._started.add(outputs[:1])  # a program's outputs are ready together

    def as_argument(self, value: Any) -> Any:
        """Return an input unchanged."""
        return value

    def as_separate_argument(self, value: Any) -> Any:
        """Return an input unchanged: the array that is donated with it is a copy."""
        return value

    def arrays_of(self, variables: Sequence[Variable], *, is_locked: bool) -> list[Any]:
        """Return the values of variables, which are JAX arrays."""
        del is_locked
        arrays = [variable.value for variable in variables]
        if any(array is None for array in arrays):
            raise UninitializedVariableError
        return arrays

    def holds_array_alone(self, variable: Variable, array: Any) -> bool:
        """Return whether the value of an acquired variable is an array."""
        return value_of(variable) is array

    def donatable_copy(self, array: Any) -> Any:
        """Return a copy, because JAX would overwrite an array that others hold."""
        return array.copy()

    def as_value(self, array: Any) -> Any:
        """Return the array."""
        return array

    def as_donatable_value(self, array: Any) -> Any:
        """Return the array."""
        return array

    def as_constant_value(self, value: Any) -> Any:
        """Return a result that does not depend on the inputs, as an array of the device."""
        with self._options():
            return self._put(value, self.jax_device)

    def replace(self, variable: Variable, value: Any, array: Any) -> None:
        """Set the value of a variable, acquired or not."""
        del array
        set_value(variable, value)

    def replace_all(self, variables: Sequence[Variable], arrays: Sequence[Any]) -> None:
        """Set the values of variables, none of them acquired."""
        for variable, array in zip(variables, arrays, strict=True):
            variable.value = array


def memory_of(device: Device | None) -> HostMemory:
    """Return the memory that a device's programs compute in."""
    if isinstance(device, JaxDevice):
        return DeviceMemory(device)
    return HostMemory(cpu_devices()[0])


def can_compile_for(device: Device) -> bool:
    """Return whether programs can be compiled for a device."""
    return device.is_host_memory or isinstance(device, JaxDevice)
