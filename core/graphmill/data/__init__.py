"""Input pipelines: `Dataset` with chained steps, as `tf.data`.

from graphmill.data import Dataset

for batch in Dataset.range(10).shuffle(10, seed=1).batch(4):
print(batch)
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
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

__all__ = [
    "AUTOTUNE",
    "INFINITE_CARDINALITY",
    "UNKNOWN_CARDINALITY",
    "Dataset",
    "DatasetSpec",
    "FixedLengthRecordDataset",
    "Iterator",
    "TFRecordDataset",
    "TensorSpec",
    "TextLineDataset",
    "make_initializable_iterator",
    "make_one_shot_iterator",
]

_HOMES = {
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
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        from graphmill.errors import suggest
        from graphmill.tensorflow_names import hint

        more = hint(name, __path__[0]) or suggest(name, __all__)
        raise AttributeError(f"module 'graphmill.data' has no attribute {name!r}{more}")
    value = getattr(importlib.import_module(_HOME_OF[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
