"""Run op cases on a kernel from the registry, without a graph or an executor.

An `OpError` becomes a result with its class name. Any other exception is a bug of the kernel; its
class is in angle brackets in the result, `<ValueError>`, which differs from every expected error.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from graphmill import errors
from graphmill.deprecations import renamed_name
from graphmill.runtime.kernels.op_kernel import OpKernel, OpKernelConstruction, bind
from graphmill.testing.case_folder import case_folder
from graphmill.testing.case_graph import NODE, case_types, node_attrs
from graphmill.testing.golden import CaseResult

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from graphmill.dtypes import DType
    from graphmill.ops.definition.op_def import OpDef
    from graphmill.ops.definition.op_registry import OpRegistry
    from graphmill.runtime.kernels.kernel import KernelDef
    from graphmill.runtime.kernels.kernel_registry import KernelRegistry
    from graphmill.testing.case import Case


class NotApplicableError(Exception):
    """The case does not apply to this runner; this is not a failure."""


class NoKernelError(NotApplicableError):
    """The op has no kernel."""


@dataclass(frozen=True, slots=True)
class BoundCase:
    """A case with its kernel and its flattened inputs."""

    op_def: OpDef
    attrs: dict[str, Any]
    kernel: OpKernel
    inputs: list[Any]

    @property
    def output_types(self) -> list[DType]:
        """The element types of the outputs; for references, those of their values."""
        return [dtype.base_dtype for dtype in self.op_def.output_types(self.attrs)]

    def call(self, inputs: Sequence[Any]) -> list[Any]:
        """Call the kernel and return its outputs as a list."""
        result = self.kernel.compute(*inputs)
        count = len(self.output_types)
        return [] if count == 0 else [result] if count == 1 else list(result)


class KernelRunner:
    """Run cases on NumPy kernels."""

    backend = "numpy"
    # Exceptions of the namespace, for example for shapes that do not broadcast, which executors
    # convert to invalid arguments (graphmill.runtime.kernels.kernel_errors).
    refusals: tuple[type[Exception], ...] = (
        *(ValueError, IndexError, OverflowError, ZeroDivisionError),
    )

    def __init__(self, ops: OpRegistry, kernels: KernelRegistry) -> None:
        self._ops = ops
        self._kernels = kernels

    def run(self, case: Case) -> CaseResult:
        """Run a case.

        Raises:
            NotApplicableError: the case needs a session, or the backend has no kernel for it.
        """
        return result_of(lambda: self._run(case), self.refusals)

    def _run(self, case: Case) -> CaseResult:
        bound = self.bind(case)
        with np.errstate(all="ignore"), case_folder(case) as folder:
            results = bound.call([folder.inside(value) for value in bound.inputs])
            result = checked_result(results, bound.output_types)
            return replace(result, outputs=tuple(folder.outside(v) for v in result.outputs))

    def bind(self, case: Case) -> BoundCase:
        """Find the kernel of a case and bind it.

        Raises:
            NotApplicableError: as in `run`.
            OpError: the attrs are invalid, or there is no kernel for them.
        """
        if case.program is not None:
            raise NotApplicableError("the case is a program, which needs a session")
        op_def = self._ops.get(case.op)
        attrs = node_attrs(op_def, case_types(case), case.attrs)
        op_def.check_attrs(attrs)
        if not self._kernels.registrations(op_def, ("numpy",)):
            raise NoKernelError(f"{case.op} has no kernel")
        definition = self._find(op_def, attrs)
        if definition.stateful:
            raise NotApplicableError("the kernel needs the context of a session")
        construction = OpKernelConstruction(NODE, op_def, attrs, None, self._namespace())
        flat: list[Any] = []
        for value in case.values():
            flat.extend(value if isinstance(value, list) else [value])
        return BoundCase(op_def, attrs, bind(definition, construction), flat)

    def _find(self, op_def: OpDef, attrs: dict[str, Any]) -> KernelDef:
        return self._kernels.find(op_def, attrs, "CPU", ("numpy",)).definition

    def _namespace(self) -> Any:
        return np


def result_of(
    run: Callable[[], CaseResult], refusals: tuple[type[Exception], ...] = ()
) -> CaseResult:
    """Call `run` and convert exceptions to results, except `NotApplicableError`.

    Args:
        run: returns the result.
        refusals: exceptions that count as an invalid argument.
    """
    try:
        return run()
    except NotApplicableError:
        raise
    except refusals as error:
        return CaseResult(error="InvalidArgument", message=str(error))
    except errors.OpError as error:
        return CaseResult(error=type(error).__name__.removesuffix("Error"), message=str(error))
    except Exception as error:  # noqa: BLE001 - a bug of the kernel is reported as its result
        return CaseResult(error=f"<{type(error).__name__}>", message=str(error))


def checked_result(results: Sequence[Any], expected: Sequence[DType]) -> CaseResult:
    """Make a `CaseResult`; a wrong NumPy dtype is shown in the dtype's name."""
    arrays = [
        np.asarray(result, dtype=object if isinstance(result, bytes) else None)
        for result in results
    ]
    names = [
        dtype.name
        if array.dtype == dtype.as_numpy_dtype
        else f"{array.dtype} (op says {dtype.name})"
        for array, dtype in zip(arrays, expected, strict=True)
    ]
    return CaseResult(tuple(arrays), tuple(names))


def __getattr__(name: str) -> Any:
    """Resolve old names of this module."""
    return renamed_name(__name__, name)
