"""Run op cases: a kernel by itself on NumPy or JAX, or the op in a whole session.

An error of graphmill's becomes an answer with its class name. Any other exception is a bug of the
kernel and stands in the answer in angle brackets, `<ValueError>`, which equals nothing expected.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from graphmill import errors
from graphmill.dtypes import DType, as_dtype
from graphmill.runtime.kernel import KernelDef, OpKernel, OpKernelConstruction, bind
from graphmill.testing.answers import Answer
from graphmill.testing.case import Case
from graphmill.testing.op_graph import NODE, CaseGraph, case_graph, is_object, node_attrs

if TYPE_CHECKING:
    from graphmill.ops.op_def import OpDef
    from graphmill.ops.op_registry import OpRegistry
    from graphmill.plugin.host import Host
    from graphmill.runtime.kernel_registry import KernelRegistry

# What an array namespace refuses by itself, shapes that do not broadcast above all, is passed on by
# the executor as an invalid argument.
_REFUSALS = ("<ValueError>", "<TypeError>")
_BACKENDS = {"numpy": ("numpy",), "jax": ("jax",)}


class NotApplicableError(Exception):
    """Say why a case cannot be run in this way; it is no failure."""


class NoKernelError(NotApplicableError):
    """Say that an op has no kernel at all."""


@dataclass(frozen=True, slots=True)
class _Bound:
    op_def: OpDef
    attrs: dict[str, Any]
    kernel: OpKernel
    inputs: list[Any]


class KernelRunner:
    """Run cases on kernels taken straight from the registry, without graph and executor.

    On "jax" a kernel that can be traced is compiled with `jax.jit` in 64-bit mode, its `static`
    inputs known; one whose output shape depends on values is called with JAX arrays. Kernels that
    need a context or values on the host say nothing about JAX and are not applicable there.
    """

    def __init__(self, ops: OpRegistry, kernels: KernelRegistry, backend: str = "numpy") -> None:
        self._ops = ops
        self._kernels = kernels
        self._backend = backend

    def run(self, case: Case) -> Answer:
        """Answer a case.

        Raises:
            NotApplicableError: if it needs a session, or the backend has no kernel of its own.
        """
        if case.program is not None:
            raise NotApplicableError("it is a program, which needs a session")
        answer = answer_of(lambda: self._run(case))
        if answer.error in _REFUSALS:
            return replace(answer, error="InvalidArgument")
        return answer

    def _run(self, case: Case) -> Answer:
        bound = self._bind(case)
        if self._backend == "jax":
            results = _run_jax(bound)
        else:
            with np.errstate(all="ignore"):
                results = _as_list(bound, bound.kernel.compute(*bound.inputs))
        return checked_answer(results, [t.base_dtype for t in bound.op_def.output_types(bound.attrs)])

    def _bind(self, case: Case) -> _Bound:
        op_def = self._ops.get(case.op)
        types: list[Any] = [
            tuple(as_dtype(one.dtype) for one in tree) if isinstance(tree, tuple) else as_dtype(tree.dtype)
            for tree in case.inputs
        ]
        attrs = node_attrs(op_def, types, case.attrs)
        op_def.check_attrs(attrs)
        if not self._kernels.registrations(op_def, _BACKENDS["numpy"]):
            raise NoKernelError(f"{case.op} has no kernel")
        find = self._kernels.find if self._backend == "numpy" else self._kernels.try_find
        choice = find(op_def, attrs, "CPU", _BACKENDS[self._backend])
        if choice is None:
            raise NotApplicableError(f"{case.op} has no kernel for {self._backend} with these types")
        self._check_applicable(choice.definition)
        flat_types = (*op_def.input_types(attrs), *op_def.output_types(attrs))
        if self._backend == "jax" and any(map(is_object, flat_types)):
            raise NotApplicableError("strings and handles live on the host")
        construction = OpKernelConstruction(NODE, op_def, attrs, None, self._namespace())
        kernel = bind(choice.definition, construction)
        flat: list[Any] = []
        for value in case.values():
            flat.extend(value if isinstance(value, list) else [value])
        return _Bound(op_def, attrs, kernel, flat)

    def _check_applicable(self, definition: KernelDef) -> None:
        if definition.stateful:
            raise NotApplicableError("the kernel needs the context of a session")
        if self._backend == "jax" and definition.host:
            raise NotApplicableError("the kernel works on the host")

    def _namespace(self) -> Any:
        return np if self._backend == "numpy" else importlib.import_module("jax.numpy")


class SessionRunner:
    """Run cases as graphs in sessions; checks too that errors name the node."""

    def __init__(self, host: Host) -> None:
        self._host = host

    def run(self, case: Case) -> Answer:
        """Answer a case."""
        return answer_of(lambda: self._run(case))

    def _run(self, case: Case) -> Answer:
        graph = case_graph(case, self._host.ops)
        results: list[Any] = []
        with self._session(graph) as session:
            for fetches, targets in graph.steps:
                try:
                    results += session.run(list(fetches), graph.feeds, targets=list(targets))
                except errors.OpError as error:
                    if case.program is None and NODE not in str(error):
                        raise AssertionError(f"The error does not name the node: {error}") from error
                    raise
        return checked_answer(results, [as_dtype(name) for name in graph.dtypes])

    def _session(self, graph: CaseGraph) -> Any:
        from graphmill.session.session import Session

        return Session(graph=graph.graph_def, host=self._host)


def answer_of(run: Callable[[], Answer]) -> Answer:
    """Run and turn what is raised into an answer; `NotApplicableError` passes."""
    try:
        return run()
    except NotApplicableError:
        raise
    except errors.OpError as error:
        return Answer(error=type(error).__name__.removesuffix("Error"), message=str(error))
    except Exception as error:  # noqa: BLE001 - whatever a kernel raises is what this is to report
        return Answer(error=f"<{type(error).__name__}>", message=str(error))


def checked_answer(results: Sequence[Any], wanted: Sequence[DType]) -> Answer:
    """Make an answer of results; a NumPy dtype that is not the op's shows as the dtype's name."""
    arrays = [np.asarray(result) for result in results]
    names = [
        dtype.name if array.dtype == dtype.as_numpy_dtype else f"{array.dtype} (op says {dtype.name})"
        for array, dtype in zip(arrays, wanted, strict=True)
    ]
    return Answer(tuple(arrays), tuple(names))


def _as_list(bound: _Bound, result: Any) -> list[Any]:
    count = len(bound.op_def.output_types(bound.attrs))
    if count == 0:
        return []
    return [result] if count == 1 else list(result)


def _run_jax(bound: _Bound) -> list[Any]:
    jax = importlib.import_module("jax")
    with _x64(jax):
        if not bound.kernel.definition.is_traceable:
            arrays = [jax.numpy.asarray(value) for value in bound.inputs]
            return _as_list(bound, bound.kernel.compute(*arrays))
        static = _static_places(bound)
        moving = [value for place, value in enumerate(bound.inputs) if place not in static]

        def compute(*values: Any) -> list[Any]:
            rest = iter(values)
            flat = [v if p in static else next(rest) for p, v in enumerate(bound.inputs)]
            return _as_list(bound, bound.kernel.compute(*flat))

        return [np.asarray(result) for result in jax.jit(compute)(*moving)]


def _x64(jax: Any) -> AbstractContextManager[Any]:
    """Enter 64-bit mode for this thread only."""
    enable = getattr(jax, "enable_x64", None)
    if enable is None:
        enable = importlib.import_module("jax.experimental").enable_x64
    return nullcontext() if jax.config.jax_enable_x64 else enable(True)


def _static_places(bound: _Bound) -> set[int]:
    ranges = bound.op_def.input_ranges(bound.attrs)
    return {
        place
        for name in bound.kernel.definition.static
        for place in range(*ranges[name])
    }
