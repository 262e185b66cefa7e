"""The values that variable ops exchange: references, resource handles, variables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Final

from graphmill.dtypes import resource as resource_dtype
from graphmill.errors import FailedPreconditionError, InvalidArgumentError
from graphmill.runtime.process.fork import fork_safe_lock

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy as np

    from graphmill.dtypes import DType
    from graphmill.typing import Shape, Value


class Variable:
    """A mutable tensor: the state of a ref variable or resource variable.

    The value is replaced, never written into: a reader keeps the array that it read.

    Threads: `lock` guards read-modify-write of `value`; a plain read needs no lock.

    Attributes:
        value: the current value, or None before the first assignment.
        dtype: its element type.
        shape: its static shape, None if unknown.
        name: for messages.
        compiler_cache: a function that returns the value it was made for, and one that returns the
            compiler's form of that value; each returns None once its object is freed.
    """

    __slots__ = ("__weakref__", "compiler_cache", "dtype", "lock", "name", "shape", "value")

    def __init__(self, dtype: DType, shape: Shape = None, name: str = "") -> None:
        self.dtype = dtype
        self.shape = shape
        self.name = name
        self.value: Value = None
        self.compiler_cache: tuple[Callable[[], Any], Callable[[], Any]] | None = None
        self.lock = fork_safe_lock()

    @property
    def is_initialized(self) -> bool:
        """Whether a value has been assigned."""
        return self.value is not None

    @staticmethod
    def shapes_of(variables: Sequence[Variable]) -> list[tuple[int, ...]] | None:
        """Return the shapes of variables' values, or None if one has no value."""
        try:
            return [
                variable.value.shape if type(variable) is Variable else slot_of(variable).shape
                for variable in variables
            ]
        except AttributeError:  # one has no value, or not at this moment: then reading it waits
            values = [variable.value for variable in variables]
        return None if any(value is None for value in values) else [value.shape for value in values]

    @property
    def kept(self) -> tuple[Callable[[], Any], Callable[[], Any]] | None:
        """The old name of `compiler_cache`."""
        from graphmill.deprecations import warn_renamed

        warn_renamed("Variable.kept", "compiler_cache")
        return self.compiler_cache

    @kept.setter
    def kept(self, cache: tuple[Callable[[], Any], Callable[[], Any]] | None) -> None:
        from graphmill.deprecations import warn_renamed

        warn_renamed("Variable.kept", "compiler_cache")
        self.compiler_cache = cache


slot_of: Final[Callable[[Variable], Any]] = Variable.__dict__["value"].__get__
"""Return what a variable holds, past the `value` of a class that replaces it."""


class Ref(Variable):
    """The output of a ref-typed op: a variable that is itself passed along ref edges.

    Inputs that an OpDef declares as ref receive the `Ref`; all others receive its value
    (`tensorflow/core/common_runtime/executor.cc`, PrepareInputs).
    """

    __slots__ = ()

    def read(self) -> Value:
        """Return the value.

        Raises:
            FailedPreconditionError: nothing has been assigned yet.
        """
        value = self.value
        if value is None:
            raise FailedPreconditionError(
                f"Attempting to use uninitialized value {self.name}; "
                "run the variables' initializer or restore a checkpoint first"
            )
        return value


class ResourceHandle:
    """A scalar of dtype `resource`: the location of a resource, and the resource once it is found.

    Attributes:
        device: name of the device whose `ResourceMgr` holds it.
        container, name: its key there.
        type_name: its type, for messages, such as `"Variable"`.
        resource: the object itself; None until the first lookup.
    """

    __slots__ = ("container", "device", "name", "resource", "type_name")

    dtype: ClassVar[np.dtype[Any]] = resource_dtype.as_numpy_dtype
    shape: ClassVar[tuple[int, ...]] = ()
    ndim: ClassVar[int] = 0

    def __init__(
        self, device: str, container: str, name: str, type_name: str, resource: Any = None
    ) -> None:
        self.device = device
        self.container = container
        self.name = name
        self.type_name = type_name
        self.resource = resource

    def expect(self, kind: type[Any]) -> Any:
        """Return the resource if it is a `kind`.

        Raises:
            FailedPreconditionError: the resource does not exist (any more).
            InvalidArgumentError: it is something else.
        """
        resource = self.resource
        if resource is None:
            raise FailedPreconditionError(
                f"resource {self.container}/{self.name} ({self.type_name}) does not exist; "
                "its initializer has not run, or it was destroyed"
            )
        if not isinstance(resource, kind):
            raise InvalidArgumentError(
                f"resource {self.container}/{self.name} is a {type(resource).__name__}, "
                f"not a {kind.__name__}"
            )
        return resource

    def __repr__(self) -> str:
        return f"<ResourceHandle {self.type_name} {self.container}/{self.name} on {self.device}>"
