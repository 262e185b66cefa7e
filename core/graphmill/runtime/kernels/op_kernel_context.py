"""`OpKernelContext`: a stateful kernel's access to the step, the device and the session."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graphmill.errors import InternalError
from graphmill.runtime.steps.frame_ids import ROOT_FRAME_ITERATION

if TYPE_CHECKING:
    from collections.abc import Callable

    from graphmill.runtime.collectives import CollectiveExecutor
    from graphmill.runtime.devices.device import Device
    from graphmill.runtime.executor import ExecutorArgs
    from graphmill.runtime.kernels.op_kernel import OpKernel
    from graphmill.runtime.resources.resource_mgr import ResourceMgr
    from graphmill.runtime.steps.call_frame import CallFrame
    from graphmill.runtime.steps.cancellation import Cancellation, CancellationManager
    from graphmill.typing import ArrayNamespace


class OpKernelContext:
    """The context of one kernel call; created for stateful kernels only.

    Attributes:
        args: the step's `ExecutorArgs`.
        kernel: the bound kernel.
        iteration: the iteration in which the node runs, with a `name` for people and a
            `frame_iteration` for rendezvous keys; None in executors without loops.
    """

    __slots__ = ("args", "iteration", "kernel")

    def __init__(self, args: ExecutorArgs, kernel: OpKernel, iteration: Any = None) -> None:
        self.args = args
        self.kernel = kernel
        self.iteration = iteration

    @property
    def node_name(self) -> str:
        """Name of the node."""
        return self.kernel.node_name

    @property
    def op(self) -> str:
        """Op type of the node."""
        return self.kernel.op

    @property
    def device(self) -> Device:
        """The device that runs the node."""
        return self.kernel.device  # type: ignore[return-value]

    @property
    def xp(self) -> ArrayNamespace:
        """The array namespace of the kernel's backend on the device."""
        return self.kernel.xp

    @property
    def resources(self) -> ResourceMgr:
        """The `ResourceMgr` of the device."""
        return self.kernel.device.resource_mgr  # type: ignore[union-attr]

    @property
    def functions(self) -> Any:
        """The `FunctionLibraryRuntime` through which the node may call functions."""
        return self.kernel.functions

    @property
    def state(self) -> dict[Any, Any]:
        """A dict that belongs to this node in this session."""
        return self.kernel.state

    @property
    def step_id(self) -> int:
        """Id of the step."""
        return self.args.step_id

    @property
    def iteration_name(self) -> str:
        """Frame and iteration, such as `outer:3/inner:0`; empty outside of loops."""
        return "" if self.iteration is None else self.iteration.name

    @property
    def frame_iteration(self) -> str:
        """Frame and iteration in the form of rendezvous keys; `0:0` outside of loops."""
        iteration = self.iteration
        return ROOT_FRAME_ITERATION if iteration is None else iteration.frame_iteration

    @property
    def step_container(self) -> str:
        """Name of the container that is emptied after the step."""
        container = self.args.step_container
        if container is None:
            raise InternalError(
                "this run has no step container", node=self.node_name, op_type=self.op
            )
        return container.name

    @property
    def rendezvous(self) -> Any:
        """The rendezvous of the step's partitions; None if there is only one partition."""
        return self.args.rendezvous

    @property
    def collectives(self) -> CollectiveExecutor:
        """The executor of collectives: the device's own, else that of the step."""
        own = self.kernel.device.collectives  # type: ignore[union-attr]
        return self.args.collectives if own is None else own

    @property
    def cancellation(self) -> CancellationManager:
        """The step's cancellation manager."""
        return self.args.cancellation_manager

    def wait(self, describe: Callable[[], str]) -> Cancellation:
        """Return the step's cancellation, with a description of what the kernel waits for.

        Register a callback with it, as with `cancellation`: while the callback is registered, the
        node waits for what `describe` returns, and errors and progress lines say so.

        Args:
            describe: returns what the kernel waits for, such as "an element of queue 'q'"; called
                only if somebody asks, in any thread.
        """
        from graphmill.runtime.steps.waits import Wait  # few steps wait

        return Wait(self, describe)

    @property
    def call_frame(self) -> CallFrame:
        """Arguments and results of the graph or function that the node is in."""
        return self.args.call_frame

    @property
    def session_state(self) -> Any:
        """The tensors that the session keeps between runs."""
        return self.args.session_state
