"""Optimizer kernels: Apply… and SparseApply…, on reference and resource variables.

Semantics: tensorflow/core/kernels/training_ops.cc. All variables of an op are locked while it reads
and replaces their values, whatever `use_locking` says.
"""

from __future__ import annotations

from contextlib import ExitStack
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from graphmill import errors
from graphmill.spi import KernelDef, KernelTable, ResourceHandle, Variable
from graphmill.spi.kernels import UNIQUE_INDICES, cancellable, writable
from graphmill_plugins.kernels._support import shape_text
from graphmill_plugins.kernels.state.resource import variable_of
from graphmill_plugins.kernels.state.scatter import check_indices
from graphmill_plugins.kernels.state.value import initialized
from graphmill_plugins.kernels.training._training_rules import RULES, Rule

if TYPE_CHECKING:
    from collections.abc import Iterable

    from graphmill.spi import OpKernelConstruction, OpKernelContext, Value

_GRADIENTS = ("grad", "delta")
_PENALTIES = ("l1", "l2", "l2_shrinkage")
_SIGNED = ("ProximalAdagrad", "Ftrl", "FtrlV2")  # the signs of their scalars are checked
_SPARSE_SIGNED = frozenset(("Ftrl", "FtrlV2"))  # checked in the sparse forms only


def rule_name(op: str) -> str:
    """Return the name of the rule of an op: `Adam` of `ResourceApplyAdam`."""
    return op.removeprefix("Resource").removeprefix("Sparse").removeprefix("Apply")


class OptimizerKernel:
    """Bind an optimizer op to its update rule and the roles of its inputs."""

    def __init__(self, construction: OpKernelConstruction) -> None:
        self._rule: Rule = RULES[rule_name(construction.op)]
        self._names = [arg.name for arg in construction.op_def.input_args]
        self._options = {name: construction.attr(name) for name in self._rule.attrs}
        self._is_sparse = "indices" in self._names
        name = rule_name(construction.op)
        self._checks_signs = name in _SIGNED and (self._is_sparse or name not in _SPARSE_SIGNED)
        self._has_output = bool(construction.op_def.output_args)

    def __call__(self, ctx: OpKernelContext, *inputs: Any) -> Any:
        """Update the variables; the ref form returns the reference to the first."""
        arguments = dict(zip(self._names, inputs, strict=True))
        variables = {name: self._variable(arguments.pop(name)) for name in self._rule.states}
        _check_distinct(variables)
        gradient = arguments.pop(next(name for name in _GRADIENTS if name in arguments))
        self._check_scalars(arguments)
        if self._checks_signs and ctx.args is not None:  # while tracing, the compiler checks
            self._check_signs(arguments)
        with ExitStack() as locks:
            # A fixed order, so that two ops on the same variables cannot deadlock.
            for variable in sorted(variables.values(), key=id):
                locks.enter_context(variable.lock)
            self._check_slots(variables)
            if ctx.state.get(UNIQUE_INDICES):
                self._update_distinct(ctx.xp, variables, gradient, arguments)
            elif self._is_sparse:
                self._update_rows(ctx.xp, variables, gradient, arguments)
            else:
                self._update_all(ctx.xp, variables, gradient, arguments)
        return inputs[0] if self._has_output else None

    @staticmethod
    def _variable(handle: Any) -> Variable:
        if isinstance(handle, ResourceHandle):
            return variable_of(handle)
        variable: Variable = handle
        initialized(variable)  # raises before any other check
        return variable

    @staticmethod
    def _check_scalars(arguments: dict[str, Value]) -> None:
        for name, value in arguments.items():
            if name != "indices" and np.ndim(value) != 0:
                raise errors.InvalidArgumentError(
                    f"{name} is not a scalar: {shape_text(np.shape(value))}"
                )

    def _check_signs(self, arguments: dict[str, Value]) -> None:
        lr, may_be_zero = arguments["lr"], self._options.get("multiply_linear_by_lr", False)
        if not (lr > 0 or (may_be_zero and lr == 0)):
            raise errors.InvalidArgumentError(f"lr is not a positive scalar: {lr}")
        for name in _PENALTIES:
            if name in arguments and not arguments[name] >= 0:
                raise errors.InvalidArgumentError(
                    f"{name}, a regularization strength, is not a non-negative scalar: "
                    f"{arguments[name]}"
                )
        if "lr_power" in arguments and not arguments["lr_power"] <= 0:
            raise errors.InvalidArgumentError(
                f"lr_power is not a non-positive scalar: {arguments['lr_power']}"
            )

    @staticmethod
    def _check_slots(variables: dict[str, Variable]) -> None:
        current = {name: initialized(variable) for name, variable in variables.items()}
        for name, value in current.items():
            _check_same(f"var and {name} do not have the same shape", current["var"], value)

    def _update_all(
        self, xp: Any, variables: dict[str, Variable], gradient: Value, arguments: dict[str, Value]
    ) -> None:
        current = {name: variable.value for name, variable in variables.items()}
        _check_same("var and grad do not have the same shape", current["var"], gradient)
        new = self._update(xp, current, gradient, arguments)
        for variable, value in zip(variables.values(), new, strict=True):
            variable.value = value

    def _update(
        self, xp: Any, current: dict[str, Value], gradient: Value, arguments: dict[str, Value]
    ) -> list[Value]:
        new = self._rule.update(xp, **current, grad=gradient, **arguments, **self._options)
        return [value.astype(current["var"].dtype) for value in new]

    def _update_rows(
        self, xp: Any, variables: dict[str, Variable], gradient: Value, arguments: dict[str, Value]
    ) -> None:
        """Apply the rule to the rows at `indices`, once for each occurrence of a row."""
        arguments = dict(arguments)
        rows = np.asarray(arguments.pop("indices"))
        self._check_rows(rows, variables["var"].value.shape, gradient)
        with ExitStack() as written:
            if xp is np:
                new = [written.enter_context(writable(one)) for one in variables.values()]
            else:
                new = [np.array(one.value) for one in variables.values()]
            for positions in cancellable(_distinct_runs(rows), 64):
                selected = rows[positions]
                part = {name: value[selected] for name, value in zip(variables, new, strict=True)}
                updated = self._update(np, part, np.asarray(gradient)[positions], arguments)
                for value, rows_of_value in zip(new, updated, strict=True):
                    value[selected] = rows_of_value
        if xp is not np:
            for variable, value in zip(variables.values(), new, strict=True):
                variable.value = xp.asarray(value)

    def _update_distinct(
        self, xp: Any, variables: dict[str, Variable], gradient: Value, arguments: dict[str, Value]
    ) -> None:
        """Apply the rule to the rows at unique `indices`, while a compiler traces the op."""
        arguments = dict(arguments)
        rows = arguments.pop("indices")
        current = {name: variable.value for name, variable in variables.items()}
        _check_gradient(rows, current["var"].shape, gradient)
        part = {name: xp.take(value, rows, axis=0, mode="clip") for name, value in current.items()}
        new = self._update(xp, part, gradient, arguments)
        for variable, value in zip(variables.values(), new, strict=True):
            variable.value = variable.value.at[rows].set(value, mode="drop")

    @staticmethod
    def _check_rows(rows: Any, shape: tuple[int, ...], gradient: Value) -> None:
        _check_gradient(rows, shape, gradient)
        check_indices(rows, shape[0])


def _check_gradient(rows: Any, shape: tuple[int, ...], gradient: Value) -> None:
    if rows.ndim != 1:
        raise errors.InvalidArgumentError(
            f"indices must be one-dimensional, got shape {shape_text(rows.shape)}"
        )
    if gradient.shape != (rows.size, *shape[1:]) or not shape:
        raise errors.InvalidArgumentError(
            "grad must be the same size as indices in the first dimension and as var in the "
            f"others, got {shape_text(gradient.shape)} for {rows.size} indices and var "
            f"{shape_text(shape)}"
        )


def _distinct_runs(rows: Any) -> list[Any]:
    """Split positions into groups without repeated rows; repeated rows keep their order."""
    order = np.argsort(rows, kind="stable")
    ordered = rows[order]
    starts = np.flatnonzero(np.concatenate(([True], ordered[1:] != ordered[:-1])))
    if starts.size >= rows.size:  # usual for embeddings, whose gradients are already deduplicated
        return [slice(None)]
    occurrence = np.empty(rows.size, np.intp)
    occurrence[order] = np.arange(rows.size) - np.repeat(starts, np.diff(starts, append=rows.size))
    by_occurrence = np.argsort(occurrence, kind="stable")
    ends = np.cumsum(np.bincount(occurrence)).tolist()
    return [by_occurrence[start:end] for start, end in pairwise([0, *ends])]


def _check_distinct(variables: dict[str, Variable]) -> None:
    """Check that each input has a variable of its own: their new values depend on each other."""
    names: dict[int, str] = {}
    for name, variable in variables.items():
        other = names.setdefault(id(variable), name)
        if other != name:
            raise errors.InvalidArgumentError(
                f"{other} and {name} are the same variable; each needs a variable of its own"
            )


def _check_same(message: str, first: Value, second: Value) -> None:
    if first.shape != second.shape:
        raise errors.InvalidArgumentError(
            f"{message}{shape_text(first.shape)} {shape_text(second.shape)}"
        )


def _ops() -> list[str]:
    names = []
    for name, rule in RULES.items():
        names += [f"Apply{name}", f"ResourceApply{name}"]
        if rule.has_sparse:
            names += [f"SparseApply{name}", f"ResourceSparseApply{name}"]
    # Ops that only exist for resources.
    resource_only = ("KerasMomentum", "AdamWithAmsgrad")
    return [name for name in names if not (name[0] in "AS" and rule_name(name) in resource_only)]


def _kernel_of(ops: Iterable[str], *, is_sparse: bool) -> KernelDef:
    return KernelDef(
        ops=tuple(ops),
        function=OptimizerKernel,
        stateful=True,
        effects=frozenset({"state"}),
        traces_variables=True,
        distinct_rows=is_sparse,
    )


optimizer_kernels = KernelTable(
    [
        _kernel_of((op for op in _ops() if "Sparse" not in op), is_sparse=False),
        _kernel_of((op for op in _ops() if "Sparse" in op), is_sparse=True),
    ]
)
