"""`Program`: a cluster as a function from tensors to tensors, for `torch.compile`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from graphmill.spi import as_status, errors

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from graphmill.spi import OpKernel

    Source = tuple[int, int]
    """The source of a value: index of a step (-1 for the inputs), and index of its output."""


class Program:
    """A sequence of kernels.

    Args:
        steps: each kernel with the sources of its inputs.
        results: the sources of the outputs.
        backend: the backend of `torch.compile`; "" runs the kernels uncompiled.

    Threads: any thread may call; the object is immutable.
    """

    def __init__(
        self,
        steps: Sequence[tuple[OpKernel, Sequence[Source]]],
        results: Sequence[Source],
        backend: str,
    ) -> None:
        self._kernels = [kernel for kernel, _ in steps]
        self._steps = [(kernel.compute, tuple(sources)) for kernel, sources in steps]
        self._results = tuple(results)
        self._backend = backend
        self._compiled: Callable[..., Any] | None = None
        if backend:
            self._compiled = self._compiled_by(backend)

    def _compiled_by(self, backend: str) -> Callable[..., Any]:
        try:
            return torch.compile(self._run, backend=backend)  # type: ignore[no-any-return]
        except ImportError as error:  # some installations lack the compiler's dependencies
            raise errors.FailedPreconditionError(
                f"torch.compile cannot be used: {error}. Install the missing package, or set "
                "`compile` of torch to 'none'"
            ) from error

    def __call__(self, *inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Return the outputs.

        Raises:
            OpError: a kernel raised; it names the node.
            InternalError: PyTorch cannot compile the program.
        """
        if self._compiled is None:
            return self._run_each(inputs)
        try:
            return tuple(self._compiled(*inputs))
        except Exception as error:
            self._run_each(inputs)  # if a kernel failed, this raises and names its node
            raise errors.InternalError(
                f"torch.compile with backend {self._backend!r} failed: {type(error).__name__}: "
                f"{error}. Set `compile` to another backend, or to 'none'"
            ) from error

    def _run(self, *inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
        values: list[Any] = []
        for compute, sources in self._steps:
            result = compute(*[self._value(values, inputs, source) for source in sources])
            values.append(result if isinstance(result, tuple) else (result,))
        return tuple(self._value(values, inputs, source) for source in self._results)

    def _run_each(self, inputs: Sequence[torch.Tensor]) -> tuple[torch.Tensor, ...]:
        """Run like `_run`, but name the node whose kernel raises."""
        values: list[Any] = []
        for kernel, (compute, sources) in zip(self._kernels, self._steps, strict=True):
            try:
                result = compute(*[self._value(values, inputs, source) for source in sources])
            except Exception as error:
                raise _status_of(error, kernel) from error
            values.append(result if isinstance(result, tuple) else (result,))
        return tuple(self._value(values, inputs, source) for source in self._results)

    @staticmethod
    def _value(values: list[Any], inputs: Sequence[torch.Tensor], source: Source) -> torch.Tensor:
        step, output = source
        found: torch.Tensor = inputs[output] if step < 0 else values[step][output]
        return found


def _status_of(error: Exception, kernel: OpKernel) -> errors.OpError:
    if isinstance(error, torch.OutOfMemoryError):
        status: errors.OpError = errors.ResourceExhaustedError(str(error))
    elif isinstance(error, RuntimeError):  # PyTorch raises it for incompatible shapes
        status = errors.InvalidArgumentError(str(error))
    else:
        status = as_status(error, kernel)
    return status.locate(node=kernel.node_name, op_type=kernel.op)
