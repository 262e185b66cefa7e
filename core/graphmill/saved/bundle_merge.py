"""Merge tensor bundles: the last step of saving a checkpoint from several devices or tasks."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from google.protobuf.message import DecodeError

from graphmill import errors, files, proto
from graphmill.access.broker import UNRESTRICTED
from graphmill.saved import bundle_format as layout
from graphmill.saved.bundle_writer import write_index
from graphmill.saved.table import TableReader

if TYPE_CHECKING:
    from collections.abc import Iterable

    from graphmill.access.broker import Broker
    from graphmill.proto.tensor_bundle_pb2 import BundleEntryProto, BundleHeaderProto


def merge_bundles(
    prefixes: Iterable[str],
    destination: str,
    *,
    allow_missing_files: bool = False,
    broker: Broker = UNRESTRICTED,
) -> None:
    """Merge several checkpoints into one at `destination`, moving their data files.

    This deletes the sources; if it fails, they stay as they were. Only one of them may contain a
    given tensor, but slices of one tensor may be spread over several.

    Semantics: MergeBundles in tensorflow/core/util/tensor_bundle/tensor_bundle.cc.

    Args:
        prefixes: the checkpoints to merge.
        destination: prefix of the merged checkpoint.
        allow_missing_files: whether to skip missing sources.
        broker: opens and moves the files.

    Raises:
        InvalidArgumentError: a source is missing, or the sources are incompatible.
        NotFoundError: a data file is missing.
        DataLossError: a source is damaged.
    """
    sources = list(prefixes)
    merge = _Merge(broker)
    for prefix in sources:
        if broker.exists(layout.index_path(prefix)):
            merge.add(prefix)
        elif not allow_missing_files:
            raise errors.InvalidArgumentError(
                f"allow_missing_files was set to false and {prefix} did not exist: "
                f"{layout.index_path(prefix)} is missing"
            )
    broker.make_dirs(files.parent(destination))
    merge.header.num_shards = len(merge.shards)
    moved: list[tuple[str, str]] = []
    try:
        for path, shard in merge.shards.items():
            target = layout.data_path(destination, shard, len(merge.shards))
            broker.rename(path, target)
            moved.append((path, target))
        write_index(destination, merge.header, merge.entries, broker)
    except errors.OpError:
        for path, target in reversed(moved):
            with contextlib.suppress(errors.OpError):  # the first error is more informative
                broker.rename(target, path)
        raise
    for prefix in sources:
        with contextlib.suppress(errors.OpError):  # best effort: the merged checkpoint is complete
            broker.remove(layout.index_path(prefix))


class _Merge:
    """The index of the merged checkpoint under construction."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self.header: BundleHeaderProto = proto.BundleHeaderProto()
        self.entries: dict[bytes, BundleEntryProto] = {}
        self.shards: dict[str, int] = {}  # path of a data file -> its index in the result

    def add(self, prefix: str) -> None:
        """Add the index of one source."""
        path = layout.index_path(prefix)
        with contextlib.closing(self._broker.open_reader(path)) as reader:
            items = dict(TableReader(reader).items())
        try:
            header = proto.BundleHeaderProto.FromString(items.pop(layout.HEADER_KEY))
            entries = {
                key: proto.BundleEntryProto.FromString(value) for key, value in items.items()
            }
        except (KeyError, DecodeError) as error:
            raise errors.DataLossError(f"{path} is damaged: {error}") from error
        self._add_header(header, path)
        for key, entry in entries.items():
            self._add_entry(key, entry, prefix, header.num_shards)

    def _add_header(self, header: BundleHeaderProto, path: str) -> None:
        first = self.header
        if not first.num_shards:
            first.CopyFrom(header)
        elif (first.endianness, first.version) != (header.endianness, header.version):
            raise errors.InvalidArgumentError(
                f"Merging bundles with conflicting endianness or version: {path} differs from "
                "the previous bundles"
            )

    def _add_entry(self, key: bytes, entry: BundleEntryProto, prefix: str, shards: int) -> None:
        existing = self.entries.get(key)
        if existing is None:
            path = layout.data_path(prefix, entry.shard_id, shards)
            entry.shard_id = self.shards.setdefault(path, len(self.shards))
            self.entries[key] = entry
            return
        if not existing.slices or not entry.slices:
            raise errors.InvalidArgumentError(
                f"Duplicate tensor keyed by {layout.name_of(key)} encountered, when merging "
                f"prefix: {prefix}"
            )
        if (existing.dtype, existing.shape) != (entry.dtype, entry.shape):
            raise errors.InvalidArgumentError(
                f"type or shape of tensor {layout.name_of(key)} in {prefix} differs from that in "
                "the previous checkpoints"
            )
        existing.slices.extend(entry.slices)
