"""DebugIdentityV2: record a tensor in the files of the second version of tfdbg.

All nodes of a session with the same dump folder write to one set of files. TensorFlow keeps the
last tensors in memory until its Python debugger flushes them; here they are written when the
session drops the writer.

Semantics: tensorflow/core/kernels/debug_ops.h, tensorflow/core/util/debug_events_writer.cc.
"""

from __future__ import annotations

import socket
import time
import weakref
from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from graphmill.dtypes import as_dtype
from graphmill.errors import InternalError
from graphmill.spi import kernel
from graphmill.spi.files import frame, join
from graphmill.spi.process import fork_safe_lock
from graphmill.spi.protos import numpy_to_tensor_proto, proto

if TYPE_CHECKING:
    from graphmill.spi import OpKernelConstruction, OpKernelContext, Value
    from graphmill.spi.files import Broker

_VERSION: Final = "debug.Event:1"
_TENSORFLOW_VERSION: Final = "2.21.0"
_TRACES: Final = "graph_execution_traces"
_FILES: Final = ("source_files", "stack_frames", "graphs", "execution")
_SCHEME: Final = "file://"
_CONTAINER: Final = "_debug_events"


def _framed(event: proto.DebugEvent) -> bytes:
    event.wall_time = time.time()
    return frame(event.SerializeToString())


class _Traces:
    """The file of recorded tensors; the latest ones may be kept in memory.

    Threads: `_lock` guards the records and the file.
    """

    def __init__(self, path: str, capacity: int, broker: Broker) -> None:
        self._lock = fork_safe_lock()
        self._file = broker.open_appender(path)
        self._capacity = capacity
        self._last: deque[bytes] = deque(maxlen=max(capacity, 0))

    def add(self, record: bytes) -> None:
        """Write a record, or keep it in place of the oldest one."""
        with self._lock:
            if self._capacity > 0:
                self._last.append(record)
            else:
                self._file.write(record)
                self._file.flush()

    def close(self) -> None:
        """Write the records that were kept, and close the file."""
        with self._lock:
            self._file.write(b"".join(self._last))
            self._last.clear()
            self._file.flush()
            self._file.close()


class DebugEventsWriter:
    """The files of a dump folder: metadata, tensors, and the others that tfdbg expects, empty.

    Args:
        folder: the dump folder.
        run_id: names the run.
        capacity: how many tensors are kept in memory until the writer is dropped; 0 or less to
            write each at once.
        broker: opens the files.
    """

    def __init__(self, folder: str, run_id: str, capacity: int, broker: Broker) -> None:
        prefix = join(folder, f"tfdbg_events.{int(time.time()):010d}.{socket.gethostname()}")
        metadata = proto.DebugEvent()
        metadata.debug_metadata.tensorflow_version = _TENSORFLOW_VERSION
        metadata.debug_metadata.file_version = _VERSION
        metadata.debug_metadata.tfdbg_run_id = run_id
        broker.write(f"{prefix}.metadata", _framed(metadata))
        for name in _FILES:
            broker.write(f"{prefix}.{name}")
        self._traces = _Traces(f"{prefix}.{_TRACES}", capacity, broker)
        # It may close in any thread: whoever holds the lock of the traces uses the writer.
        weakref.finalize(self, self._traces.close)

    def add(self, event: proto.DebugEvent) -> None:
        """Record a tensor."""
        self._traces.add(_framed(event))


@kernel("DebugIdentityV2", stateful=True, effects=("clock", "fs.write", "state"), brokered=True)
class DebugIdentityV2Kernel:
    """Record a value, and return it.

    Raises:
        InternalError: a URL is not that of a folder.
    """

    def __init__(self, construction: OpKernelConstruction) -> None:
        attr = construction.attr
        self._context_id, self._op_name = attr("tfdbg_context_id"), attr("op_name")
        self._slot, self._mode = attr("output_slot"), attr("tensor_debug_mode")
        self._run_id, self._capacity = attr("tfdbg_run_id"), attr("circular_buffer_size")
        self._broker = construction.broker
        self._folders = [_folder(url) for url in attr("debug_urls")]

    def __call__(self, ctx: OpKernelContext, value: Value) -> Value:
        """Record the value."""
        for folder in self._folders:
            create = partial(DebugEventsWriter, folder, self._run_id, self._capacity, self._broker)
            writer = ctx.resources.lookup_or_create(_CONTAINER, folder, DebugEventsWriter, create)
            writer.add(self._event(ctx, value))
        return value

    def _event(self, ctx: OpKernelContext, value: Value) -> proto.DebugEvent:
        event = proto.DebugEvent()
        trace = event.graph_execution_trace
        trace.tfdbg_context_id, trace.op_name = self._context_id, self._op_name
        trace.device_name = ctx.device.name
        trace.output_slot = max(self._slot, 0)
        trace.tensor_debug_mode = max(self._mode, 0)
        array: Any = np.asarray(ctx.device.to_host(value))
        trace.tensor_proto.CopyFrom(numpy_to_tensor_proto(array, as_dtype(array.dtype)))
        return event


def _folder(url: str) -> str:
    if not url.startswith(_SCHEME):
        raise InternalError(f"Unsupported debug URL schema in: {url}")
    return url[len(_SCHEME) :]
