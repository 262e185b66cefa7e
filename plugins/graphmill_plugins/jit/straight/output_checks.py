"""`OutputChecks`: generate code that checks kernel outputs as executors do.

A node with one output is checked by an expression after its call, `v1.dtype is d0 or e1(v1)`, which
calls nothing if the type is right. Nodes with several outputs are checked by a function around the
call.

The expression costs a tenth of a kernel call with scalars. A kernel that is a function of the array
namespace cannot read values, so its input types determine its output types. It is checked only in
the first calls of the code, and only for the first of the nodes that share its call and have equal
types in one body: a check takes as long to compile as the call. With `GRAPHMILL_VALIDATE=1` all
outputs are checked in all calls, and those of kernels that may read values always are.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from graphmill.errors import InternalError
from graphmill.spi import check_output, check_outputs, checked_dtypes

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np

    from graphmill.spi import Node, OpKernel

FIRST_CALLS: Final = 8
"""Number of calls of a cluster's code in which all outputs are checked."""
FIRST_CALLS_OF_LARGE: Final = 1024
"""The same for long code without loops: it takes as long to compile again as 500 calls' checks."""
LARGE: Final = 200  # lines of long code
_FEW_CHECKS: Final = 0.1  # of the lines of long code; so many checks are not worth dropping

_EXPRESSION: Final = re.compile(r"; \w+\.dtype is d\d+ or (e\d+)\(\w+\)")


class OutputChecks:
    """Generates the output checks of one cluster.

    Args:
        names: the global names of its code; the checks add theirs.
    """

    def __init__(self, names: dict[str, Any]) -> None:
        self._names = names
        self._dtypes: dict[np.dtype[Any], str] = {}
        self._num_checks = 0
        self._check_of: dict[str, str] = {}  # checks by the names of kernels' calls
        self._several_of: set[str] = set()  # the calls that check several outputs
        self._wrapped: dict[str, Callable[..., Any]] = {}  # kernels by the names of their calls
        self._first: set[str] = set()  # the checks that are left out after the first calls

    def checked(
        self,
        targets: str,
        function: str,
        call: str,
        node: Node,
        kernel: OpKernel,
        *,
        is_first: bool = True,
    ) -> str:
        """Return code that assigns the checked result of `call` of `function` to `targets`.

        Args:
            targets: the left side of the assignment.
            function: the name of the kernel's call.
            call: the code that calls it.
            node: the node.
            kernel: its kernel.
            is_first: whether no earlier node of the same body has this call, and equal types.
        """
        if not is_first and not _looks_at_values(kernel):
            return targets + call  # the output of the earlier node is checked
        dtypes = checked_dtypes(node)
        if not dtypes or not any(dtypes) or (len(dtypes) > 1 and kernel.definition.forwards):
            return targets + call
        if len(dtypes) > 1:
            return targets + self._several(function, call, kernel, dtypes)
        (dtype,) = dtypes
        assert dtype is not None
        check = self._check_of.get(function)
        if check is None:
            check = self._named(lambda value: check_output(kernel, 0, value, dtype))
            self._check_of[function] = check
        name = targets.removesuffix(" = ")
        if not _looks_at_values(kernel):
            self._first.add(check)
        return f"{targets}{call}; {name}.dtype is {self._dtype(dtype)} or {check}({name})"

    def _several(
        self,
        function: str,
        call: str,
        kernel: OpKernel,
        dtypes: tuple[np.dtype[Any] | None, ...],
    ) -> str:
        """Return code for a checked call with several outputs."""
        if kernel.definition.async_:
            check = self._named(lambda result: _all_checked(kernel, dtypes, result))
            return f"{check}(({call}))"
        if function in self._several_of:
            return call
        self._several_of.add(function)
        compute = self._names[function]
        self._names[function] = lambda *inputs: _all_checked(kernel, dtypes, compute(*inputs))
        if not _looks_at_values(kernel):
            self._wrapped[function] = compute
        return call

    def pays_to_drop(self, num_lines: int, is_large: bool) -> bool:
        """Return whether to compile the code again, after its first calls, with fewer checks.

        Args:
            num_lines: the length of the code in lines.
            is_large: whether compiling it takes longer than many calls.
        """
        num_checks = len(self._first) + len(self._wrapped)
        return num_checks > (num_lines * _FEW_CHECKS if is_large else 0)

    def end_first(self) -> None:
        """Drop the checks of the first calls from the code."""
        self._names.update(self._wrapped)

    def without_first(self, source: str) -> str:
        """Return code without the checks of the first calls; line numbers do not change."""
        return _EXPRESSION.sub(lambda match: "" if match[1] in self._first else match[0], source)

    def wrong_output(self, error: Exception, node: Node, kernel: OpKernel) -> InternalError | None:
        """Return the error for an output that is not an array, if a check raised `error`.

        Args:
            error: the exception that the code raised.
            node: the node whose line raised it.
            kernel: the node's kernel.
        """
        trace = error.__traceback__
        while trace is not None and trace.tb_next is not None:
            trace = trace.tb_next
        is_ours = trace is not None and trace.tb_frame.f_globals is self._names
        if not is_ours or not isinstance(error, AttributeError) or error.name != "dtype":
            return None
        (dtype,) = checked_dtypes(node)
        assert dtype is not None
        try:
            check_output(kernel, 0, error.obj, dtype)
        except InternalError as wrong:
            return wrong
        return None

    def _dtype(self, dtype: np.dtype[Any]) -> str:
        """Return the name of an element type."""
        name = self._dtypes.get(dtype)
        if name is None:
            name = self._dtypes[dtype] = f"d{len(self._dtypes)}"
            self._names[name] = dtype
        return name

    def _named(self, check: Callable[[Any], Any]) -> str:
        """Return the name of a new check."""
        name = f"e{self._num_checks}"
        self._num_checks += 1
        self._names[name] = check
        return name


def _looks_at_values(kernel: OpKernel) -> bool:
    """Return whether a kernel's output types may depend on input values."""
    definition = kernel.definition
    return definition.backend is not None or not definition.is_traceable


def _all_checked(kernel: OpKernel, dtypes: tuple[np.dtype[Any] | None, ...], result: Any) -> Any:
    check_outputs(kernel, dtypes, result)
    return result
