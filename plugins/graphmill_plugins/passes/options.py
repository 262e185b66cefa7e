"""Read from the session's config which passes are enabled.

`OptimizerOptions.opt_level` L0 and `RewriterConfig.disable_meta_optimizer` disable all of them, a
toggle of `RewriterConfig` its pass, and a list of `optimizers` all that are not in it. A `do_` flag
of `OptimizerOptions` enables a pass in any case. (`GRAPHMILL_DISABLE_PASSES=a,b` disables any pass
by name, before it is called.)
"""

from __future__ import annotations

from typing import Any, Final

_TOGGLES: Final = {
    "function_inlining": "function_optimization",
    "identity_pruning": "dependency_optimization",
    "constant_folding": "constant_folding",
    "common_subexpressions": "common_subgraph_elimination",
}

_OPTIMIZERS: Final = {
    "function_inlining": "function",
    "identity_pruning": "dependency",
    "constant_folding": "constfold",
    "common_subexpressions": "common_subgraph_elimination",
}
"""The names of the passes in `rewrite_options.optimizers`, which lists all passes that may run."""
_FLAGS: Final = {
    "function_inlining": "do_function_inlining",
    "constant_folding": "do_constant_folding",
    "common_subexpressions": "do_common_subexpression_elimination",
}
"""Fields of `OptimizerOptions` that enable a pass."""


def is_enabled(name: str, config: Any) -> bool:
    """Return whether the pass `name` may run under a `ConfigProto`."""
    graph_options = config.graph_options
    rewrite = graph_options.rewrite_options
    optimizer = graph_options.optimizer_options
    if name in _FLAGS and getattr(optimizer, _FLAGS[name]):
        return True
    if optimizer.opt_level < 0 or rewrite.disable_meta_optimizer:
        return False
    if rewrite.optimizers:
        return _OPTIMIZERS[name] in rewrite.optimizers
    return bool(getattr(rewrite, _TOGGLES[name]) != rewrite.OFF)
