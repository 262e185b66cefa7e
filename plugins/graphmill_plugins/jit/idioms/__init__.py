"""Replace patterns of several ops by better equivalents.

Passes rewrite a pattern (`multi_hot`, `constant_segments`, `sampled_softmax_mask`) and are switched
like any other pass; analyses find it for the tracer (`sparse_dedup_analysis`,
`list_length_analysis`).
"""
