"""TensorFlow's spellings for what the raw ops spell awkwardly.

    from graphmill import functions as F

    y = F.matmul(x, weights, transpose_b=True)
    loss = F.reduce_mean(F.cast(labels, "float32") * y, axis=[0, 1])

Names, arguments and their order are those of `tf.compat.v1` and `tf.compat.v1.nn`. Each function
adds a few nodes of raw ops (`graphmill.ops`), which remain available. Ops whose spelling is
TensorFlow's already (`exp`, `add_v2`, `relu`) are only there.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from graphmill.functions.array import (
        boolean_mask,
        concat,
        expand_dims,
        eye,
        fill,
        gather,
        one_hot,
        ones,
        ones_like,
        pad,
        reshape,
        shape,
        size,
        split,
        squeeze,
        stack,
        tile,
        transpose,
        unstack,
        where,
        where_v2,
        zeros,
        zeros_like,
    )
    from graphmill.functions.building import (
        add_to_collection,
        add_to_collections,
        colocate_with,
        constant,
        control_dependencies,
        convert_to_tensor,
        device,
        get_collection,
        name_scope,
        placeholder,
        placeholder_with_default,
    )
    from graphmill.functions.math import (
        argmax,
        argmin,
        cast,
        count_nonzero,
        cumsum,
        div_no_nan,
        einsum,
        matmul,
        norm,
        range,  # noqa: A004 - TensorFlow's name
        reduce_all,
        reduce_any,
        reduce_logsumexp,
        reduce_max,
        reduce_mean,
        reduce_min,
        reduce_prod,
        reduce_sum,
        tensordot,
    )
    from graphmill.functions.nn import (
        avg_pool,
        batch_normalization,
        bias_add,
        conv2d,
        dropout,
        embedding_lookup,
        in_top_k,
        l2_normalize,
        log_softmax,
        max_pool,
        moments,
        sigmoid_cross_entropy_with_logits,
        softmax,
        softmax_cross_entropy_with_logits,
        softmax_cross_entropy_with_logits_v2,
        sparse_softmax_cross_entropy_with_logits,
        top_k,
    )
    from graphmill.functions.random import (
        random_normal,
        random_shuffle,
        random_uniform,
        truncated_normal,
    )

__all__ = [
    "add_to_collection",
    "add_to_collections",
    "argmax",
    "argmin",
    "avg_pool",
    "batch_normalization",
    "bias_add",
    "boolean_mask",
    "cast",
    "colocate_with",
    "concat",
    "constant",
    "control_dependencies",
    "conv2d",
    "convert_to_tensor",
    "count_nonzero",
    "cumsum",
    "device",
    "div_no_nan",
    "dropout",
    "einsum",
    "embedding_lookup",
    "expand_dims",
    "eye",
    "fill",
    "gather",
    "get_collection",
    "in_top_k",
    "l2_normalize",
    "log_softmax",
    "matmul",
    "max_pool",
    "moments",
    "name_scope",
    "norm",
    "one_hot",
    "ones",
    "ones_like",
    "pad",
    "placeholder",
    "placeholder_with_default",
    "random_normal",
    "random_shuffle",
    "random_uniform",
    "range",
    "reduce_all",
    "reduce_any",
    "reduce_logsumexp",
    "reduce_max",
    "reduce_mean",
    "reduce_min",
    "reduce_prod",
    "reduce_sum",
    "reshape",
    "shape",
    "sigmoid_cross_entropy_with_logits",
    "size",
    "softmax",
    "softmax_cross_entropy_with_logits",
    "softmax_cross_entropy_with_logits_v2",
    "sparse_softmax_cross_entropy_with_logits",
    "split",
    "squeeze",
    "stack",
    "tensordot",
    "tile",
    "top_k",
    "transpose",
    "truncated_normal",
    "unstack",
    "where",
    "where_v2",
    "zeros",
    "zeros_like",
]

_HOMES = {
    "graphmill.functions.array": (
        "boolean_mask",
        "concat",
        "expand_dims",
        "eye",
        "fill",
        "gather",
        "one_hot",
        "ones",
        "ones_like",
        "pad",
        "reshape",
        "shape",
        "size",
        "split",
        "squeeze",
        "stack",
        "tile",
        "transpose",
        "unstack",
        "where",
        "where_v2",
        "zeros",
        "zeros_like",
    ),
    "graphmill.functions.building": (
        "add_to_collection",
        "add_to_collections",
        "colocate_with",
        "constant",
        "control_dependencies",
        "convert_to_tensor",
        "device",
        "get_collection",
        "name_scope",
        "placeholder",
        "placeholder_with_default",
    ),
    "graphmill.functions.math": (
        "argmax",
        "argmin",
        "cast",
        "count_nonzero",
        "cumsum",
        "div_no_nan",
        "einsum",
        "matmul",
        "norm",
        "range",
        "reduce_all",
        "reduce_any",
        "reduce_logsumexp",
        "reduce_max",
        "reduce_mean",
        "reduce_min",
        "reduce_prod",
        "reduce_sum",
        "tensordot",
    ),
    "graphmill.functions.nn": (
        "avg_pool",
        "batch_normalization",
        "bias_add",
        "conv2d",
        "dropout",
        "embedding_lookup",
        "in_top_k",
        "l2_normalize",
        "log_softmax",
        "max_pool",
        "moments",
        "sigmoid_cross_entropy_with_logits",
        "softmax",
        "softmax_cross_entropy_with_logits",
        "softmax_cross_entropy_with_logits_v2",
        "sparse_softmax_cross_entropy_with_logits",
        "top_k",
    ),
    "graphmill.functions.random": (
        "random_normal",
        "random_shuffle",
        "random_uniform",
        "truncated_normal",
    ),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        from graphmill.errors import suggest
        from graphmill.tensorflow_names import hint

        more = hint(name, __path__[0]) or suggest(name, __all__)
        raise AttributeError(f"module 'graphmill.functions' has no attribute {name!r}{more}")
    value = getattr(importlib.import_module(_HOME_OF[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
