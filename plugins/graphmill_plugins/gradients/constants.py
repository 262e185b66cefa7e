"""Ops without a gradient for any type.

Semantics: the `NotDifferentiable` of tensorflow/python/ops/*_grad.py. Ops whose outputs have no
trainable type need no entry.
"""

from __future__ import annotations

from graphmill.spi.gradients import not_differentiable

none = not_differentiable(
    # array
    "BroadcastGradientArgs", "Const", "EditDistance", "Empty", "InvertPermutation", "OneHot",
    "OnesLike", "Placeholder", "PlaceholderV2", "Rank", "Shape", "ShapeN", "Size", "StopGradient",
    "Where", "ZerosLike", "FakeParam",
    # math
    "ArgMax", "ArgMin", "Ceil", "Digitize", "Floor", "FloorDiv", "HistogramFixedWidth", "LinSpace",
    "Range", "Rint", "Round", "TruncateDiv",
    # others
    "DecodeRaw", "InitializeTable", "InitializeTableFromTextFile", "LookupTableFind",
    "LookupTableFindV2", "LookupTableInsert", "LookupTableSize", "HashTable", "Assert",
    "HistogramSummary", "ImageSummary", "ScalarSummary", "Timestamp", "StringToNumber",
    "MutableDenseHashTableV2", "PyFunc", "PyFuncStateless", "ReduceDataset", "LoadAndRemapMatrix",
    "SdcaOptimizer", "SdcaOptimizerV2", "SdcaShrinkL1",
)  # fmt: skip
