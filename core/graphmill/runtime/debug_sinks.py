"""Write watched tensors to files in tfdbg's layout, or pass them to a callback (clause P6).

Semantics: `DebugIO` in `tensorflow/core/debug/debug_io_utils.cc`. `DebugDumpDir` of
`tensorflow.python.debug` reads the files.
"""

from __future__ import annotations

import json
import os
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from graphmill.access.broker import UNRESTRICTED
from graphmill.errors import InvalidArgumentError, NotFoundError, ResourceExhaustedError
from graphmill.graph.node import parse_tensor_name
from graphmill.runtime.value_shape import num_bytes_of_value

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from graphmill.access.broker import Broker

FILE_SCHEME: Final = "file://"
"""The scheme of URLs of folders."""
_CALLBACK: Final = "callback://"
_MICROS: Final = 1_000_000
LIMIT_VARIABLE: Final = "TFDBG_DISK_BYTES_LIMIT"
"""Environment variable: the limit in bytes on tensors that debug watches write (TensorFlow's)."""
_DEFAULT_LIMIT: Final = 100 << 30


class DiskUsage:
    """Limits what debug watches write to files, in all sessions of the process.

    Threads: `_lock` guards the number of bytes.

    Attributes:
        used: the bytes of tensors that were written since the start or the last reset.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.used = 0

    def request(self, tensor: WatchedTensor) -> None:
        """Count a tensor that is about to be written.

        Raises:
            ResourceExhaustedError: it would exceed the limit.
        """
        size = num_bytes_of_value(tensor.value)
        limit = int(os.environ.get(LIMIT_VARIABLE, _DEFAULT_LIMIT))
        with self._lock:
            if self.used + size < limit:
                self.used += size
                return
        raise ResourceExhaustedError(
            f"debug watches have exhausted their allowance of {limit} bytes on disk, so "
            f"{tensor.node_name}:{tensor.output_slot} ({size} bytes) is not written. Set "
            f"{LIMIT_VARIABLE} to a larger number, or reset_disk_byte_usage in the debug options "
            "of a step"
        )

    def reset(self) -> None:
        """Count from zero again."""
        with self._lock:
            self.used = 0


class WatchedTensor:
    """One watched value.

    Attributes:
        node_name, output_slot: the tensor.
        debug_op: the debug op that was applied to it, such as `"DebugIdentity"`.
        device: full name of the tensor's device.
        value: the value, as NumPy array or scalar.
        wall_time: seconds since the epoch.
        dump_name: path of its file in the dump folder, without the time; empty for the default.
        iteration: the enclosing frames and iterations, such as `outer:3/inner:0`; empty outside of
            loops.
    """

    __slots__ = (
        "debug_op",
        "device",
        "dump_name",
        "iteration",
        "node_name",
        "output_slot",
        "value",
        "wall_time",
    )

    def __init__(
        self,
        tensor_name: str,
        debug_op: str,
        device: str,
        value: Any,
        dump_name: str = "",
        iteration: str = "",
    ) -> None:
        self.node_name, self.output_slot = parse_tensor_name(tensor_name)
        self.debug_op = debug_op
        self.device = device
        self.value = value
        self.wall_time = time.time()
        self.dump_name = dump_name
        self.iteration = iteration

    def __repr__(self) -> str:
        shape = getattr(self.value, "shape", ())
        where = f" in iteration {self.iteration}" if self.iteration else ""
        return (
            f"<WatchedTensor {self.node_name}:{self.output_slot} {self.debug_op} shape={shape} "
            f"on {self.device}{where}>"
        )


DISK_USAGE: Final = DiskUsage()
"""The usage of this process."""


def publish(
    tensor: WatchedTensor,
    url: str,
    callbacks: Mapping[str, Callable[..., Any]],
    broker: Broker = UNRESTRICTED,
) -> None:
    """Send a watched value to `file:///folder` or `callback://name`.

    Rules apply to files only: decision 0030.

    Raises:
        NotFoundError: the host has no callback of that name.
        PermissionDeniedError: the rules of the session do not allow it.
        InvalidArgumentError: the URL has another scheme.
        ResourceExhaustedError: watches have written more bytes than they may.
        OpError: the file cannot be written.
    """
    if url.startswith(FILE_SCHEME):
        root = Path(url[len(FILE_SCHEME) :])
        broker.require("fs.write", str(root))
        DISK_USAGE.request(tensor)
        write_event(tensor, root, broker)
    elif url.startswith(_CALLBACK):
        name = url[len(_CALLBACK) :]
        if name not in callbacks:
            raise NotFoundError(
                f"no debug callback {name!r}; host.debug_callbacks has "
                f"{', '.join(sorted(callbacks)) or 'none'}"
            )
        callbacks[name](tensor)  # no rule is needed: the program has registered it for this
    else:
        raise InvalidArgumentError(
            f"debug URL {url!r} is not supported; use file:///folder or callback://name"
        )


def write_event(tensor: WatchedTensor, root: Path, broker: Broker = UNRESTRICTED) -> Path:
    """Write a watched value below `root` as tfdbg does; return the path of the file.

    The file is `<root>/_tfdbg_device_,job_…/<node>_<slot>_<debug op>_<microseconds>`; it holds an
    `Event` message.
    """
    stamp = int(tensor.wall_time * _MICROS)
    usual = f"{tensor.node_name}_{tensor.output_slot}_{tensor.debug_op}"
    name = tensor.dump_name or f"{device_folder(tensor.device)}/{usual}"
    path = str(root / f"{name}_{stamp}")
    return Path(broker.write_new(path, _event(tensor).SerializeToString()))


def device_folder(device: str) -> str:
    """Return the name of the folder for a device's files."""
    return "_tfdbg_device_" + device.replace("/", ",").replace(":", "_")


def _event(tensor: WatchedTensor) -> Any:
    from graphmill.ops.tensor_proto import numpy_to_tensor_proto
    from graphmill.proto import event_pb2

    event = event_pb2.Event(wall_time=tensor.wall_time)
    value = event.summary.value.add(
        node_name=f"{tensor.node_name}:{tensor.output_slot}:{tensor.debug_op}", tag=tensor.node_name
    )
    value.metadata.plugin_data.plugin_name = "debugger"
    value.metadata.plugin_data.content = json.dumps(
        {
            "device": tensor.device,
            "outputSlot": tensor.output_slot,
            "numChunks": 1,
            "chunkIndex": 0,
        }
    ).encode()
    array = np.asarray(tensor.value)
    value.tensor.CopyFrom(numpy_to_tensor_proto(array))
    if array.dtype != object and array.size and not value.tensor.tensor_content:
        # tfdbg reads numeric values only from `tensor_content`.
        message = value.tensor
        dtype, shape = message.dtype, [dim.size for dim in message.tensor_shape.dim]
        message.Clear()
        message.dtype = dtype
        for size in shape:
            message.tensor_shape.dim.add(size=size)
        message.tensor_content = array.tobytes()
    return event
