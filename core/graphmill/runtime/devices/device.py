"""`Device`: runs kernels and owns memory, resources and a list of accepted backends.

A device plugin subclasses `Device` and `DeviceFactory`. It must supply an array namespace for each
backend that it accepts, and the copies between its memory and the host's.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from graphmill.runtime.kernels.op_segment import OpSegment
from graphmill.runtime.resources.resource_mgr import ResourceMgr

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from graphmill.graph.graph import Graph
    from graphmill.proto.config_pb2 import ConfigProto
    from graphmill.runtime.collectives import CollectiveExecutor
    from graphmill.runtime.devices.allocator import Allocator
    from graphmill.runtime.kernels.op_kernel import OpKernel
    from graphmill.typing import ArrayNamespace, Value


def new_incarnation() -> int:
    """Return a random number of 63 bits, never 0, that identifies one lifetime of a device."""
    return int.from_bytes(os.urandom(8), "little") >> 1 | 1


@dataclass(frozen=True, slots=True)
class DeviceAttributes:
    """The description of a device.

    Attributes:
        name: full name, `/job:localhost/replica:0/task:0/device:CPU:0`.
        device_type: `CPU`, `GPU`, or a plugin's own.
        memory_limit: bytes.
        incarnation: random, new at each start.
        physical_device_desc: a description of the hardware, for people.
    """

    name: str
    device_type: str
    memory_limit: int = 0
    incarnation: int = field(default_factory=new_incarnation)
    physical_device_desc: str = ""

    @property
    def memory_limit_bytes(self) -> int:
        """`memory_limit`, under its name in `tf.compat.v1.Session.list_devices`."""
        return self.memory_limit

    def to_proto(self) -> Any:
        """Return the `DeviceAttributes` message."""
        from graphmill.proto import device_attributes_pb2

        return device_attributes_pb2.DeviceAttributes(
            name=self.name,
            device_type=self.device_type,
            memory_limit=self.memory_limit,
            incarnation=self.incarnation,
            physical_device_desc=self.physical_device_desc,
        )


class Device(ABC):
    """One device of a session, or of a server, whose sessions share it.

    Threads: all methods may be called from several threads at once.

    Attributes:
        attributes: name, type, memory limit, incarnation.
        resource_mgr: its resources.
        op_segment: the stateful kernels of its sessions.
    """

    #: Backends whose kernels the device runs, the preferred one first.
    backends: tuple[str, ...] = ("numpy",)
    #: The backend whose namespace general kernels receive, if it is not the preferred one: a device
    #: with kernels of its own can leave all others to NumPy.
    general_backend: str | None = None
    #: Whether its kernels compute on host values, so that nothing is copied to it or from it.
    is_host_memory: bool = False
    #: Whether the device must see each call of a kernel, so that none of its nodes is compiled. It
    #: is True for a class that overrides `compute_of`, unless the class sets it to False: compiled
    #: nodes bypass `compute_of`.
    observes_kernels: bool = False
    #: The half type in which `auto_mixed_precision` lets it compute, `"float16"` or `"bfloat16"`,
    #: because that is faster than float32; "" for a device whose nodes keep their types.
    half_type: str = ""
    #: The executor of its nodes' collectives; None for that of the step.
    collectives: CollectiveExecutor | None = None

    def __init_subclass__(cls, **keywords: Any) -> None:
        super().__init_subclass__(**keywords)
        for base in cls.__mro__:
            if "observes_kernels" in vars(base):
                return  # inherited together with the `compute_of` that it describes
            if "compute_of" in vars(base):
                cls.observes_kernels = True
                return

    def __init__(self, attributes: DeviceAttributes) -> None:
        self.attributes = attributes
        self.resource_mgr = ResourceMgr()
        self.op_segment = OpSegment()

    @property
    def name(self) -> str:
        """The full name."""
        return self.attributes.name

    @property
    def device_type(self) -> str:
        """The device type, such as `"CPU"`."""
        return self.attributes.device_type

    @abstractmethod
    def namespace(self, backend: str) -> ArrayNamespace:
        """Return the array namespace for kernels of `backend` on this device."""

    @abstractmethod
    def to_device(self, value: Value) -> Value:
        """Convert a host value (NumPy array or scalar) to a value of this device."""

    @abstractmethod
    def to_host(self, value: Value) -> Value:
        """Convert a value of this device to a NumPy array or scalar; wait until it is computed."""

    def allocator(self, *, on_host: bool = False) -> Allocator | None:
        """Return the allocator of the device's memory, or of host memory it can access (clause P2).

        None, the default, means that the array library manages the memory.
        """
        del on_host
        return None

    def after_fork_in_child(self) -> None:  # noqa: B027 - most devices have nothing to do
        """Prepare for use in the child of a fork, where only one thread exists.

        Called for the devices of each open session. A device whose library does not work in the
        child raises `FailedPreconditionError` from then on, in `to_device` and when it computes.
        """

    def compute_of(self, kernel: OpKernel) -> Callable[..., Any]:
        """Return the function with which executors compute a node; called once for each kernel.

        By default the kernel's own function. A device that must do something around each call (set
        a thread's current device, count, check) returns a function that wraps it. Compiled nodes do
        not call kernels: see `observes_kernels`.
        """
        return kernel.compute

    def maybe_rewrite_graph(self, graph: Graph) -> None:  # noqa: B027 - most devices leave it
        """Change the device's part of a graph before its kernels are chosen (clause P5).

        Called once for each partition, after all passes. Arguments, results, sends and receives
        must not change.
        """

    def sync(self) -> None:  # noqa: B027 - a device that computes at once has nothing to wait for
        """Wait until all work in flight on the device is done.

        A step ends with it, unless `TF_SYNC_ON_FINISH=0` is set; devices that do not override it
        are not waited for.

        Raises:
            OpError: work that had been started has failed; the step fails with it.
        """

    @property
    def may_be_in_flight(self) -> bool:
        """Whether work may continue after its kernel has returned: whether `sync` is overridden."""
        return type(self).sync is not Device.sync

    def close(self) -> None:
        """Free the device's resources; called when its session is closed or its server stopped."""
        self.op_segment.clear()
        self.resource_mgr.clear()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name}>"


class DeviceFactory(ABC):
    """Creates the devices of one type for a session."""

    @abstractmethod
    def create_devices(self, config: ConfigProto, name_prefix: str) -> Sequence[Device]:
        """Return the devices of this type for a session.

        Args:
            config: the session's `ConfigProto`; `device_count` gives the number of devices.
            name_prefix: `/job:localhost/replica:0/task:0`, to be followed by `/device:TYPE:N`.
        """

    def why_none(self) -> str:
        """Return why there are no devices of this type; called if a session requests some."""
        return "the machine has none"
