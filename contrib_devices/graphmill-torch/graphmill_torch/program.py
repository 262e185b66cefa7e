"""`Program`: the function of a cluster, from tensors to tensors, for `torch.compile`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from graphmill.spi import as_status, errors

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from graphmill.spi import OpKernel

    Place = tuple[int, int]
    """Where a value comes from: the number of a step (-1 for the inputs), and of its output."""


class Program:
    """A sequence of kernels.

    Args:
        steps: each kernel with the places of its inputs.
        results: the places of the outputs.
        backend: the backend of `torch.compile`; "" runs the kernels as they are.

    Threads: any may call; it holds nothing that changes.
    """

    def __init__(
        self,
        steps: Sequence[tuple[OpKernel, Sequence[Place]]],
        results: Sequence[Place],
        backend: str,
    ) -> None:
        self._kernels = [kernel for kernel, _ in steps]
        self._steps = [(kernel.compute, tuple(places)) for kernel, places in steps]
        self._results = tuple(results)
        self._backend = backend
        self._compiled: Callable[..., Any] | None = None
        if backend:
            self._compiled = self._made_by(backend)

    def _made_by(self, backend: str) -> Callable[..., Any]:
        try:
            return torch.compile(self._run, backend=backend)  # type: ignore[no-any-return]
        except ImportError as error:  # some installations leave out what only the compiler needs
            raise errors.FailedPreconditionError(
                f"torch.compile cannot be used: {error}. Install what PyTorch lacks, or set "
                "`compile` of torch to 'none'"
            ) from error

    def __call__(self, *inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Return the outputs.

        Raises:
            OpError: a kernel raised; it names the node.
            InternalError: PyTorch cannot compile it.
        """
        if self._compiled is None:
            return self._run_each(inputs)
        try:
            return tuple(self._compiled(*inputs))
        except Exception as error:
            self._run_each(inputs)  # if a kernel is to blame, it raises again, and is named
            raise errors.InternalError(
                f"torch.compile with backend {self._backend!r} failed: {type(error).__name__}: "
                f"{error}. Set `compile` to another backend, or to 'none'"
            ) from error

    def _run(self, *inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
        values: list[Any] = []
        for compute, places in self._steps:
            result = compute(*[self._value(values, inputs, place) for place in places])
            values.append(result if isinstance(result, tuple) else (result,))
        return tuple(self._value(values, inputs, place) for place in self._results)

    def _run_each(self, inputs: Sequence[torch.Tensor]) -> tuple[torch.Tensor, ...]:
        """Run like `_run`, but name the node whose kernel raises."""
        values: list[Any] = []
        for kernel, (compute, places) in zip(self._kernels, self._steps, strict=True):
            try:
                result = compute(*[self._value(values, inputs, place) for place in places])
            except Exception as error:
                raise _status_of(error, kernel) from error
            values.append(result if isinstance(result, tuple) else (result,))
        return tuple(self._value(values, inputs, place) for place in self._results)

    @staticmethod
    def _value(values: list[Any], inputs: Sequence[torch.Tensor], place: Place) -> torch.Tensor:
        step, output = place
        found: torch.Tensor = inputs[output] if step < 0 else values[step][output]
        return found


def _status_of(error: Exception, kernel: OpKernel) -> errors.OpError:
    if isinstance(error, torch.OutOfMemoryError):
        made: errors.OpError = errors.ResourceExhaustedError(str(error))
    elif isinstance(error, RuntimeError):  # what PyTorch raises for shapes that do not fit
        made = errors.InvalidArgumentError(str(error))
    else:
        made = as_status(error, kernel)
    return made.locate(node=kernel.node_name, op=kernel.op)
