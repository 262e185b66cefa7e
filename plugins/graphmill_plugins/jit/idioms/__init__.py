"""Replace patterns of several ops by better equivalents.

Passes rewrite some patterns (`multi_hot`, `constant_segments`, `sampled_softmax_mask`) and are
enabled and disabled like any other pass. Analyses find other patterns for the tracer
(`sparse_dedup_analysis`, `list_length_analysis`).
"""
