"""`Replays`: trace a kernel once for several equal nodes of a program.

Calling a function of `jax.numpy` takes JAX 0.07 ms, adding the operations that it traced takes half
of that. So the operations of a kernel are recorded, and added again for each node with the
same attrs whose inputs have the same types, shapes and static values.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import jax
from jax.extend import core

from graphmill.spi.graphs import AttrsCache
from graphmill_plugins.jit.tracing.static_values import is_static

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Sequence

    from graphmill.spi import Node
    from graphmill_plugins._constants import Marks

_CALLS_BEFORE: Final = 3  # of equal nodes; recording costs as much as four calls
_MAX_STATIC_BYTES: Final = 256  # size in bytes of a static input that is compared


class _Recorded(NamedTuple):
    """The operations of a kernel.

    Attributes:
        add: adds them for other inputs; takes and returns traced values.
        is_several: whether the kernel returned a sequence.
    """

    add: Callable[..., list[Any]]
    is_several: bool


class _NotRecordableError(Exception):
    """A kernel returns something besides traced values."""


class Replays:
    """The recorded kernels of one trace.

    Args:
        marks: the values that are the same in each call, which kernels may treat differently.
    """

    def __init__(self, marks: Marks) -> None:
        self._marks = marks
        self._attrs: AttrsCache[int] = AttrsCache()
        self._num_attrs = 0
        self._counts: dict[Hashable, int] = {}
        self._recorded: dict[Hashable, _Recorded | None] = {}

    def key_of(self, node: Node, inputs: Sequence[Any]) -> Hashable:
        """Return a key that equal calls share; None if there is none."""
        forms = tuple([self._form(value) for value in inputs])
        if None in forms:
            return None
        attrs = self._attrs.find(node)
        if attrs is None:
            attrs = self._attrs.store(node, self._num_attrs)
            self._num_attrs += 1
        return attrs, forms

    def find(self, key: Hashable, inputs: Sequence[Any]) -> tuple[Any, ...] | None:
        """Return the outputs of a recorded kernel for these inputs; None if it is not recorded."""
        recorded = self._recorded.get(key)
        if recorded is None:
            return None
        return tuple(recorded.add(*[value for value in inputs if not is_static(value)]))

    def call(self, key: Hashable, compute: Callable[..., Any], *inputs: Any) -> Any:
        """Call a kernel, and record its operations if equal nodes have called it before."""
        if key is None or key in self._recorded:
            return compute(*inputs)
        count = self._counts[key] = self._counts.get(key, 0) + 1
        if count <= _CALLS_BEFORE:
            return compute(*inputs)
        recorded = self._recorded[key] = self._record(compute, inputs)
        if recorded is None:
            return compute(*inputs)
        outputs = recorded.add(*[value for value in inputs if not is_static(value)])
        return outputs if recorded.is_several else outputs[0]

    def _form(self, value: Any) -> Hashable:
        """Return what a kernel's operations may depend on; None if it cannot be compared."""
        if is_static(value):
            if value.nbytes > _MAX_STATIC_BYTES or value.dtype.hasobject:
                return None
            return type(value), value.dtype, value.shape, value.tobytes()
        if isinstance(value, jax.core.Tracer):
            return value.aval, value in self._marks
        return None

    def _record(self, compute: Callable[..., Any], inputs: Sequence[Any]) -> _Recorded | None:
        """Return the operations of a kernel; None if they cannot be added for other inputs."""
        positions = [index for index, value in enumerate(inputs) if not is_static(value)]
        is_marked = [inputs[index] in self._marks for index in positions]
        is_several = False

        def traced(*values: Any) -> Sequence[Any]:
            nonlocal is_several
            arguments = list(inputs)
            for index, value, marked in zip(positions, values, is_marked, strict=True):
                arguments[index] = value
                self._marks.add([value] if marked else [])
            result = compute(*arguments)
            is_several = isinstance(result, (tuple, list))
            outputs = result if is_several else (result,)
            if not all(isinstance(output, jax.core.Tracer) for output in outputs):
                raise _NotRecordableError
            return outputs

        avals = [inputs[index].aval for index in positions]
        if any(aval.weak_type for aval in avals):
            return None
        try:
            closed = jax.make_jaxpr(traced)(
                *[jax.ShapeDtypeStruct(aval.shape, aval.dtype) for aval in avals]
            )
        except _NotRecordableError:
            return None
        if closed.effects:
            return None
        return _Recorded(core.jaxpr_as_fun(closed), is_several)
