"""Replace patterns of several ops by better equivalents.

Passes rewrite some patterns (`multi_hot`, `constant_segments`, `sampled_softmax_mask`) and are
enabled and disabled like any other pass. Analyses find other patterns for the tracer
(`sparse_dedup_analysis`, `list_length_analysis`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from graphmill.spi import has_ops

if TYPE_CHECKING:
    from graphmill.spi import PassRegistrar

ONE_HOT: Final = "OneHot"
HITS: Final = "ComputeAccidentalHits"
WITH_COUNT: Final = {
    "SparseSegmentSum": "SparseSegmentSumWithNumSegments",
    "SparseSegmentMean": "SparseSegmentMeanWithNumSegments",
    "SparseSegmentSqrtN": "SparseSegmentSqrtNWithNumSegments",
}
"""The form of a segment op with a static number of segments."""
SCALES: Final = {
    "SparseSegmentSumGradV2": b"sum",
    "SparseSegmentMeanGradV2": b"mean",
    "SparseSegmentSqrtNGradV2": b"sqrtn",
}
"""The scale of the rows of a segment, by gradient op."""


def register_idioms(passes: PassRegistrar) -> None:
    """Register the passes, each for graphs with an op of its pattern."""
    for name, function, applies in (
        ("jit_multi_hot", "multi_hot:count_one_hots", has_ops(ONE_HOT)),
        (
            "jit_segments",
            "constant_segments:count_constant_segments",
            has_ops(*WITH_COUNT, *SCALES),
        ),
        ("jit_accidental_hits", "sampled_softmax_mask:mark_accidental_hits", has_ops(HITS)),
    ):
        passes.add(name, f"{__name__}.{function}", phase="HOT", order=5, applies=applies)
