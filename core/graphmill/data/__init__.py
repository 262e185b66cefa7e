"""Input pipelines: `Dataset` with chained steps, as `tf.data`.

    from graphmill.data import Dataset

    for batch in Dataset.range(10).shuffle(10, seed=1).batch(4):
        print(batch)

Such a loop needs no session; `make_one_shot_iterator` gives tensors for the steps of one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphmill.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from graphmill.data.composite import RaggedTensor, SparseTensor
    from graphmill.data.dataset import (
        AUTOTUNE,
        INFINITE_CARDINALITY,
        UNKNOWN_CARDINALITY,
        Dataset,
    )
    from graphmill.data.element_spec import DatasetSpec, TensorSpec
    from graphmill.data.files import FixedLengthRecordDataset, TextLineDataset, TFRecordDataset
    from graphmill.data.iterator import (
        Iterator,
        make_initializable_iterator,
        make_one_shot_iterator,
    )
    from graphmill.data.options import Options, ThreadingOptions

__all__ = [
    "AUTOTUNE",
    "INFINITE_CARDINALITY",
    "UNKNOWN_CARDINALITY",
    "Dataset",
    "DatasetSpec",
    "FixedLengthRecordDataset",
    "Iterator",
    "Options",
    "RaggedTensor",
    "SparseTensor",
    "TFRecordDataset",
    "TensorSpec",
    "TextLineDataset",
    "ThreadingOptions",
    "make_initializable_iterator",
    "make_one_shot_iterator",
]

_HOMES = {
    "graphmill.data.composite": ("RaggedTensor", "SparseTensor"),
    "graphmill.data.dataset": (
        "AUTOTUNE",
        "INFINITE_CARDINALITY",
        "UNKNOWN_CARDINALITY",
        "Dataset",
    ),
    "graphmill.data.element_spec": ("DatasetSpec", "TensorSpec"),
    "graphmill.data.files": ("FixedLengthRecordDataset", "TextLineDataset", "TFRecordDataset"),
    "graphmill.data.iterator": (
        "Iterator",
        "make_initializable_iterator",
        "make_one_shot_iterator",
    ),
    "graphmill.data.options": ("Options", "ThreadingOptions"),
}

__getattr__, __dir__ = lazy_exports(__name__, _HOMES)
