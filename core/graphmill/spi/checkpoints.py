"""Checkpoints: read and write both of TensorFlow's formats.

from graphmill.spi.checkpoints import BundleReader, BundleWriter
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from graphmill.saved.bundle_entry import BundleEntry as BundleEntry
    from graphmill.saved.bundle_format import index_path as index_path
    from graphmill.saved.bundle_format import key_of as key_of
    from graphmill.saved.bundle_merge import merge_bundles as merge_bundles
    from graphmill.saved.bundle_reader import BundleReader as BundleReader
    from graphmill.saved.bundle_writer import BundleWriter as BundleWriter
    from graphmill.saved.tensor_slice import TensorSlice as TensorSlice
    from graphmill.saved.tensor_slice import parse_shape_and_slice as parse_shape_and_slice
    from graphmill.saved.v1_checkpoint import V1Reader as V1Reader
    from graphmill.saved.v1_checkpoint import V1Writer as V1Writer
else:
    from graphmill.spi._lazy import lazy_names

    __all__, __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "graphmill.saved.bundle_entry": "BundleEntry",
            "graphmill.saved.bundle_format": "index_path key_of",
            "graphmill.saved.bundle_merge": "merge_bundles",
            "graphmill.saved.bundle_reader": "BundleReader",
            "graphmill.saved.bundle_writer": "BundleWriter",
            "graphmill.saved.tensor_slice": "TensorSlice parse_shape_and_slice",
            "graphmill.saved.v1_checkpoint": "V1Reader V1Writer",
        },
    )
