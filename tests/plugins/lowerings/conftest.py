"""Call an op's NumPy kernel and its lowering's checks on the same inputs."""

from __future__ import annotations

import importlib
import inspect

import numpy as np
import pytest

from graphmill.dtypes import as_dtype
from graphmill.runtime.kernels.kernel_errors import as_status
from graphmill.runtime.kernels.lowering import lowerings_of
from graphmill.runtime.kernels.op_kernel import OpKernelConstruction, bind, python_value
from graphmill.testing.case_graph import node_attrs
from graphmill_plugins import lowerings
from graphmill_plugins.lowerings._ops import OPS


def checks_of(op):
    modules = [f"{lowerings.__name__}.{module}" for module, ops in OPS.items() if op in ops.split()]
    declared = [one for name in modules for one in lowerings_of(importlib.import_module(name))]
    return [check for one in declared if op in one.ops for check in one.checks]


class CheckedOp:
    """An op with inputs and attrs: its kernel, and the results of its checks."""

    def __init__(self, host, op, inputs, attrs):
        op_def = host.ops.get(op)
        self._inputs = inputs
        self._attrs = node_attrs(op_def, [_types(value) for value in inputs], attrs)
        self._checks = checks_of(op)
        definition = host.kernels.find(op_def, self._attrs, "CPU", ("numpy",)).definition
        construction = OpKernelConstruction("n", op_def, self._attrs, None, np)
        self._kernel = bind(definition, construction)

    def compute(self, *context):
        """Return the kernel's results as a tuple; a stateful kernel gets a context."""
        flat = [one for x in self._inputs for one in (x if isinstance(x, list) else [x])]
        try:
            with np.errstate(all="ignore"):  # as an executor does for the whole step
                results = self._kernel.compute(*context, *flat)
        except ValueError as error:  # as an executor raises NumPy's own
            raise as_status(error, self._kernel) from error
        return tuple(results) if isinstance(results, (list, tuple)) else (results,)

    def failed(self, of, values):
        """Return the checks that are false for the inputs or the results."""
        return [
            check
            for check in self._checks
            if check.of == of and not check.predicate(np, *values, **self._wanted(check))
        ]

    def failed_inputs(self):
        """Return the checks that are false for the inputs."""
        return self.failed("inputs", self._inputs)

    def _wanted(self, check):
        parameters = inspect.signature(check.predicate).parameters.values()
        names = [one.name for one in parameters if one.kind is one.KEYWORD_ONLY]
        return {name: python_value(self._attrs[name]) for name in names}


def _types(value):
    return tuple(map(_types, value)) if isinstance(value, list) else as_dtype(value.dtype)


@pytest.fixture
def checked(graphmill_host):
    """Return a function that makes a `CheckedOp`: op, inputs, attrs by keyword."""
    return lambda op, *inputs, **attrs: CheckedOp(graphmill_host, op, inputs, attrs)
