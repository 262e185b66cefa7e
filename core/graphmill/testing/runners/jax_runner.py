"""Run op cases on kernels under JAX.

A traceable kernel is compiled with `jax.jit` in 64-bit mode; its `static` inputs are constants. A
kernel whose output shape depends on values is called with JAX arrays. Kernels that need a context
or host values are not applicable.
"""

from __future__ import annotations

import importlib
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

import numpy as np

from graphmill.testing.case_graph import is_object
from graphmill.testing.runners.kernel_runner import (
    BoundCase,
    KernelRunner,
    NotApplicableError,
    checked_result,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from graphmill.ops.definition.op_def import OpDef
    from graphmill.runtime.kernels.kernel import KernelDef
    from graphmill.testing.case import Case
    from graphmill.testing.golden import CaseResult

_TOGETHER = 24  # cases compiled as one program, because each compilation has a high fixed cost
_COMPILER_OPTIONS = {
    "xla_backend_optimization_level": 0,
    "xla_llvm_disable_expensive_passes": True,
    "xla_cpu_parallel_codegen_split_count": 1,
}
"""Each program runs once, so LLVM's optimizations cost more time than they save."""


class JaxRunner(KernelRunner):
    """Run cases on JAX, one by one (`run`) or many in few compilations (`run_many`)."""

    backend = "jax"
    refusals = (*KernelRunner.refusals, TypeError)  # lax raises it for incompatible shapes

    def run_many(self, cases: Sequence[Case]) -> dict[str, CaseResult | NotApplicableError]:
        """Return the results of cases by id; compile several together, or each alone on failure."""
        results: dict[str, CaseResult | NotApplicableError] = {}
        alone = [case for case in cases if case.error]
        plain = [case for case in cases if not case.error]
        for start in range(0, len(plain), _TOGETHER):
            chunk = plain[start : start + _TOGETHER]
            try:
                results.update(self._run_together(chunk))
            except Exception:  # noqa: BLE001 - reported when each case runs alone
                alone += chunk
        for case in alone:
            try:
                results[case.id] = self.run(case)
            except NotApplicableError as reason:
                results[case.id] = reason
        return results

    def _run_together(self, cases: Iterable[Case]) -> dict[str, CaseResult | NotApplicableError]:
        by_id: dict[str, CaseResult | NotApplicableError] = {}
        bound: dict[str, BoundCase] = {}
        for case in cases:
            try:
                one = self.bind(case)
            except NotApplicableError as reason:
                by_id[case.id] = reason
                continue
            if one.kernel.definition.is_traceable:
                bound[case.id] = one
            else:
                by_id[case.id] = self.run(case)
        results = _compiled(list(bound.values()))
        for (case_id, one), outputs in zip(bound.items(), results, strict=True):
            by_id[case_id] = checked_result(outputs, one.output_types)
        return by_id

    def _run(self, case: Case) -> CaseResult:
        bound = self.bind(case)
        if bound.kernel.definition.is_traceable:
            (results,) = _compiled([bound])
        else:
            jax = importlib.import_module("jax")
            with _x64(jax):
                results = bound.call([jax.numpy.asarray(value) for value in bound.inputs])
        return checked_result(results, bound.output_types)

    def bind(self, case: Case) -> BoundCase:
        """Find the kernel of a case and bind it; raises the same errors as `KernelRunner`."""
        bound = super().bind(case)
        if any(map(is_object, (*bound.op_def.input_types(bound.attrs), *bound.output_types))):
            raise NotApplicableError("strings and handles are in host memory")
        return bound

    def _find(self, op_def: OpDef, attrs: dict[str, Any]) -> KernelDef:
        choice = self._kernels.try_find(op_def, attrs, "CPU", ("jax",))
        if choice is None:
            raise NotApplicableError(f"{op_def.name} has no kernel for JAX with these types")
        if choice.definition.host:
            raise NotApplicableError("the kernel needs host values")
        return choice.definition

    def _namespace(self) -> Any:
        return importlib.import_module("jax.numpy")


def _compiled(bound: Sequence[BoundCase]) -> list[list[Any]]:
    """Compile the kernels as one program, run it, and return the outputs of each."""
    jax = importlib.import_module("jax")
    static = [_static_indices(one) for one in bound]
    dynamic = [
        [value for index, value in enumerate(one.inputs) if index not in indices]
        for one, indices in zip(bound, static, strict=True)
    ]

    def compute(arguments: list[list[Any]]) -> list[list[Any]]:
        results = []
        for one, indices, values in zip(bound, static, arguments, strict=True):
            rest = iter(values)
            flat = [v if i in indices else next(rest) for i, v in enumerate(one.inputs)]
            results.append(one.call(flat))
        return results

    with _x64(jax):
        computed = jax.jit(compute, compiler_options=_COMPILER_OPTIONS)(dynamic)
        return [[np.asarray(result) for result in results] for results in computed]


def _x64(jax: Any) -> AbstractContextManager[Any]:
    """Enter 64-bit mode for this thread only."""
    enable = getattr(jax, "enable_x64", None)
    if enable is None:
        enable = importlib.import_module("jax.experimental").enable_x64
    return nullcontext() if jax.config.jax_enable_x64 else enable(True)


def _static_indices(bound: BoundCase) -> set[int]:
    ranges = bound.op_def.input_ranges(bound.attrs)
    return {index for name in bound.kernel.definition.static for index in range(*ranges[name])}
