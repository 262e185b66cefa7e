"""Graph passes: stripping, lowering, inlining, pruning, folding, merging, ordering (clause P4).

Whenever a graph is prepared, they run in this order, in which they are also registered below:

1. `debug_stripper`, if the session's configuration requests it
2. `lower_functional_ops`, in a graph for several tasks
3. `function_inlining`
4. `auto_mixed_precision`, if the session's configuration requests it
5. `identity_pruning`
6. `constant_folding`
7. `common_subexpressions`
8. `read_before_write`

The first two belong to the phase `PRE_PLACEMENT`, the others to `POST_REWRITE_FOR_EXEC`. Bodies of
functions are graphs of their own. `options.py` describes how to disable inlining, pruning, folding
and the merging of common subexpressions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphmill.spi import hookimpl

if TYPE_CHECKING:
    from graphmill.spi import Graph, PassRegistrar
    from graphmill.spi.passes import PassOptions

_PHASE = "POST_REWRITE_FOR_EXEC"


@hookimpl
def graphmill_register_passes(passes: PassRegistrar) -> None:
    """Register the passes."""
    home = __name__
    passes.add(
        "debug_stripper",
        f"{home}.debug_stripper:strip",
        phase="PRE_PLACEMENT",
        order=-100,
        applies=_strips_diagnoses,
    )
    passes.add(
        "lower_functional_ops",
        f"{home}.lower_functional_ops:lower_functional_ops",
        phase="PRE_PLACEMENT",
        order=100,
        applies=_has_several_tasks,
    )
    # First, so that passes of other plugins in this phase see the inlined bodies.
    passes.add(
        "function_inlining",
        f"{home}.function_inlining:inline_functions",
        phase=_PHASE,
        order=-100,
        applies=_has_calls,
    )
    passes.add(
        "auto_mixed_precision",
        f"{home}.auto_mixed_precision:convert",
        phase=_PHASE,
        order=10,
        applies=_mixes_precision,
    )
    passes.add("identity_pruning", f"{home}.identity_pruning:prune", phase=_PHASE, order=20)
    passes.add("constant_folding", f"{home}.constant_folding:fold", phase=_PHASE, order=30)
    passes.add(
        "common_subexpressions", f"{home}.common_subexpressions:merge", phase=_PHASE, order=40
    )
    passes.add("read_before_write", f"{home}.read_before_write:order_reads", phase=_PHASE, order=50)


def _has_several_tasks(_graph: Graph, options: PassOptions) -> bool:
    return len({device.name.partition("/device:")[0] for device in options.devices}) > 1


def _strips_diagnoses(_graph: Graph, options: PassOptions) -> bool:
    rewrite = options.config.graph_options.rewrite_options
    is_on = rewrite.debug_stripper == rewrite.ON or "debug_stripper" in rewrite.optimizers
    return bool(is_on and not rewrite.disable_meta_optimizer)


def _mixes_precision(_graph: Graph, options: PassOptions) -> bool:
    if not options.config.graph_options.HasField("rewrite_options"):
        return False
    from graphmill_plugins.passes.auto_mixed_precision import modes_of  # few sessions request it

    return bool(modes_of(options))


def _has_calls(graph: Graph, _options: PassOptions) -> bool:
    return any(node.op_def.calls or node.op in graph.library for node in graph.nodes)
