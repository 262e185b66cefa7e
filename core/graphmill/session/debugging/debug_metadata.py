"""Write the graphs and the description of watched steps, as TensorFlow's debugger reads them.

Semantics: `PublishDebugMetadata` and `PublishGraph` in `tensorflow/core/debug/debug_io_utils.cc`.
`DebugDumpDir` of `tensorflow.python.debug` reads the files.
"""

from __future__ import annotations

import hashlib
import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

from graphmill.explain.trace_completion import partition_graph
from graphmill.proto import event_pb2
from graphmill.runtime.debug_sinks import DISK_USAGE, FILE_SCHEME, device_folder

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from graphmill.access.broker import Broker
    from graphmill.lowering.partitioning.build_executors import PerPartition
    from graphmill.proto.config_pb2 import RunOptions
    from graphmill.proto.debug_pb2 import DebugTensorWatch
    from graphmill.session.executors_cache import Signature

_MICROS: Final = 1_000_000


def publish_graphs(
    items: Iterable[PerPartition], watches: Iterable[DebugTensorWatch], broker: Broker
) -> None:
    """Write each partition to the folders of the watches; called when executors are made.

    Raises:
        OpError: a file cannot be written.
    """
    roots = _folders(watches)
    for item in items if roots else ():
        content = partition_graph(item.graph).SerializeToString(deterministic=True)
        digest = int.from_bytes(hashlib.blake2b(content, digest_size=8).digest(), "little")
        event = event_pb2.Event(wall_time=time.time(), graph_def=content)
        name = f"_tfdbg_graph_hash{digest}"
        for root in roots:
            _write(event, root / device_folder(item.device.name) / name, broker)


def publish_step(
    signature: Signature, options: RunOptions, step_id: int, num_before: int, broker: Broker
) -> None:
    """Write the feeds, fetches and targets of a step to the folders of its watches.

    With `reset_disk_byte_usage`, the bytes that watches write are counted from zero again.

    Args:
        signature: its feeds, fetches and targets.
        options: its options, with `global_step` and the watches.
        step_id: id of the step.
        num_before: the number of earlier steps of the signature.
        broker: opens the files.

    Raises:
        OpError: a file cannot be written.
    """
    if options.debug_options.reset_disk_byte_usage:
        DISK_USAGE.reset()
    feeds, fetches, targets = signature
    description = {
        "global_step": options.debug_options.global_step,
        "session_run_index": step_id,
        "executor_step_index": num_before,
        "input_names": feeds,
        "output_names": fetches,
        "target_nodes": targets,
    }
    event = event_pb2.Event(wall_time=time.time())
    event.log_message.message = json.dumps(description, separators=(",", ":"))
    for root in _folders(options.debug_options.debug_tensor_watch_opts):
        _write(event, root / f"_tfdbg_core_metadata_sessionrun{step_id:014d}", broker)


def _write(event: event_pb2.Event, path: Path, broker: Broker) -> None:
    stamped = path.with_name(f"{path.name}_{int(event.wall_time * _MICROS)}")
    broker.write_new(str(stamped), event.SerializeToString())


def _folders(watches: Iterable[DebugTensorWatch]) -> Sequence[Path]:
    urls = dict.fromkeys(url for watch in watches for url in watch.debug_urls)
    return [Path(url[len(FILE_SCHEME) :]) for url in urls if url.startswith(FILE_SCHEME)]
