"""Call a kernel as executors do: wait for an asynchronous one and for its device.

For executors of any plugin. `kernel_io` checks what a kernel returned, `kernel_errors` converts
what it raised to typed errors, and `step_stats.record_node` records a run of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graphmill.errors import InternalError, OpError
from graphmill.runtime.kernels.kernel_errors import done_twice
from graphmill.runtime.steps.cancel_grace import CancellationGracePeriod

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from graphmill.runtime.devices.device import Device
    from graphmill.runtime.executor import ExecutorArgs
    from graphmill.runtime.kernels.op_kernel import OpKernel

    Outcome = tuple[Any, BaseException | None]


def outcome_of(compute: Callable[..., Any], *inputs: Any) -> Outcome:
    """Call a kernel; return its outputs and None, or None and the exception that it raised.

    For calls that pass the outcome to `done`, whose executor converts the error to a typed one.
    """
    try:
        return compute(*inputs), None
    except Exception as error:  # noqa: BLE001 - a plugin's code may raise anything
        return None, error


def call_and_wait(kernel: OpKernel, inputs: Sequence[Any], args: ExecutorArgs) -> Any:
    """Call an asynchronous kernel, and run other work of the step until the kernel is done.

    After a cancellation of the step, the wait ends with the grace period, even if the kernel never
    calls `done`.

    Args:
        kernel: an asynchronous kernel.
        inputs: its inputs, including the context.
        args: the arguments of the run.

    Returns:
        Its outputs, unchecked.

    Raises:
        BaseException: what the kernel raised, or passed to `done`.
    """
    outcome: list[Outcome] = []

    def done(outputs: Any = None, error: BaseException | None = None) -> None:
        if outcome:
            raise done_twice(kernel.node_name)
        outcome.append((outputs, error))
        args.runner.post(_wake)

    kernel.compute(*inputs, done=done)
    with CancellationGracePeriod(args, ()):
        args.runner.run_until(lambda: bool(outcome))
    outputs, error = outcome[0]
    if error is not None:
        raise error
    return outputs


def sync_device(device: Device) -> None:
    """Wait until all work in flight on a device is done (`ExecutorArgs.sync_on_finish`).

    Raises:
        OpError: the device failed after its kernels had returned; the error names the device.
    """
    try:
        device.sync()
    except OpError as error:
        error.locate(device=device.name)
        raise
    except Exception as error:
        text = f"the device failed: {type(error).__name__}: {error}"
        raise InternalError(text, device=device.name) from error


def _wake() -> None:
    """Wake the event loop, so that it checks whether the kernel is done."""
